// Uploads a file with its progress, which neither `fetch` nor Gradio's function tells.

import { words } from "../ui/words.js";

const PATH = "./gradio_api/upload";
const NO_SERVER = [502, 504]; // answers of a proxy whose server is gone
// The server ends an upload after a minute and a second for each 10 kB (web/uploads/endpoint.py). Progress tells nothing about
// the connection: systems and tunnels hold megabytes of what is still to be sent.
const longest = ({ size }) => 70_000 + size / 10; // ms

// The error of a file that the server has not answered to. The page may upload it again.
export class UploadLost extends Error {}

// The error of a file whose upload the user has cancelled.
export class UploadCancelled extends Error {}

// progress(share): called while the file is sent. signal: an AbortSignal by which the user cancels the upload. Resolves to
// { path } on the server. Rejects with an UploadLost, or with an Error whose message is a sentence: the server's, "" if it gave
// none, or that the upload was cancelled.
export function uploadFile(file, progress = () => {}, signal = null, request = new XMLHttpRequest()) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => request.abort(), longest(file));
    request.upload.onprogress = ({ loaded, total }) => progress(loaded / total);
    const lost = () => (signal?.aborted ? new UploadCancelled(words("connection.upload_cancelled")) : new UploadLost());
    request.onerror = request.onabort = () => reject(lost());
    signal?.addEventListener("abort", () => request.abort());
    request.onload = () => {
      const [status, answer] = [request.status, valueIn(request)];
      if (status === 200 && answer) resolve({ path: answer[0] });
      else reject(NO_SERVER.includes(status) ? new UploadLost() : new Error(answer?.error ?? ""));
    };
    request.onloadend = () => clearTimeout(timer);
    const form = new FormData();
    form.append("files", file);
    request.open("POST", PATH);
    request.send(form);
    if (signal?.aborted) request.abort();
  });
}

// Has the server delete uploaded files that will not be used, also if the page is closed meanwhile.
export function discardFiles(paths) {
  if (!paths.length) return;
  const headers = { "Content-Type": "application/json" };
  const url = `${window.gradio_config?.root ?? ""}/gradio_api/upload`;
  fetch(url, { method: "DELETE", keepalive: true, headers, body: JSON.stringify(paths) }).catch(() => {});
}

// The value of the server's answer; null in answers of others, such as a proxy.
function valueIn({ responseText }) {
  try {
    return JSON.parse(responseText);
  } catch {
    return null;
  }
}
