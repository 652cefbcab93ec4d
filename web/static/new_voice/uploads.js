// Uploads files, each under a random name, as soon as the server is reachable, and again if the connection is lost.

import { randomName } from "../connection/random.js";
import { UploadLost } from "../connection/upload.js";
import { words } from "../ui/words.js";

const TRIES = 5; // a proxy may answer each time for a server that is there

export class Uploads {
  // upload(file, progress, signal): as `uploadFile`. server: { lost(), present() }.
  constructor(upload, server) {
    Object.assign(this, { upload, server });
  }

  // progress(share), signal: as for `uploadFile`. Resolves to the path; rejects when the server refuses the file, the upload is
  // cancelled, or the connection is lost each time.
  async send(file, progress, signal) {
    const cancelled = new Promise((resolve) => signal?.addEventListener("abort", resolve));
    for (let tries = 1; ; tries++) {
      await Promise.race([this.server.present(), cancelled]);
      try {
        return (await this.upload(underOwnName(file), progress, signal)).path;
      } catch (error) {
        if (!(error instanceof UploadLost) || tries === TRIES) throw error;
        this.server.lost();
      }
    }
  }
}

// Why an upload failed: the server's own sentence if it refused the file, or that the user cancelled it.
export const failure = (error) => error.message || words("clip.not_uploaded");

// A random name. Otherwise the same file, uploaded by two people, would be one file on the server.
function underOwnName(file) {
  const ending = /\.[A-Za-z0-9]{1,5}$/.exec(file.name)?.[0] ?? "";
  return new File([file], randomName() + ending, { type: file.type });
}
