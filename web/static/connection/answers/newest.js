// Which of several answers is the newest. They are told by the times of the server's process (web/ui/events.py), so that those of
// a new process, whose clock may have been set back, are all newer.

export class Newest {
  constructor(page = document) {
    this.at = 0;
    page.addEventListener("reprise:back", ({ detail }) => detail.anew && (this.at = 0));
  }

  // Whether an answer of this time is the newest so far.
  takes(at) {
    if (at < this.at) return false;
    this.at = at;
    return true;
  }
}
