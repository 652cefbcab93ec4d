// Uploads files, each under a random name, as soon as the server is reachable.

import { randomName } from "../connection/random.js";
import { words } from "../ui/words.js";

export class Uploads {
  // upload(file): a promise of { path } on the server. server: { away, present() }.
  constructor(upload, server) {
    Object.assign(this, { upload, server });
  }

  // Resolves to the path; rejects when the server refuses the file.
  async send(file) {
    for (;;) {
      await this.server.present();
      try {
        return (await this.upload(underOwnName(file))).path;
      } catch (error) {
        if (!this.server.away) throw error;
      }
    }
  }
}

// Why an upload failed: the server's own sentence if it refused the file.
export const failure = (error) => refusalIn(error) || words("clip.not_uploaded");

// The server's sentence in an error of Gradio's client, 'HTTP 429: {"error": …}', else "".
function refusalIn(error) {
  try {
    return JSON.parse(/^HTTP \d+: (.*)$/s.exec(error.message)[1]).error ?? "";
  } catch {
    return ""; // another error
  }
}

// A random name. Otherwise the same file, uploaded by two people, would be one file on the server.
function underOwnName(file) {
  const ending = /\.[A-Za-z0-9]{1,5}$/.exec(file.name)?.[0] ?? "";
  return new File([file], randomName() + ending, { type: file.type });
}
