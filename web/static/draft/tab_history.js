// An entry in the browser's history for each selected tab, so that Back shows the tab before. The URL stays the same.

export class TabHistory {
  // history: the browser's. show(tab): selects a tab.
  constructor(history, show) {
    Object.assign(this, { history, show, begun: false });
    this.showing = new Set(); // tabs of entries gone to, which Gradio selects a little later
  }

  // Called when the page shows its first tab, which may be one of before a reload.
  begin(tab) {
    if (this.begun) return;
    this.begun = true;
    this.history.replaceState({ ...this.history.state, tab }, "");
  }

  // Called when a tab was selected, by the user, by an event or by `popped`.
  selected(tab) {
    const ours = this.showing.delete(tab) || this.history.state?.tab === tab;
    if (ours || !this.begun) return;
    this.showing.clear();
    this.history.pushState({ tab }, "");
  }

  // Called when the user went back or forward.
  popped(state) {
    if (!state?.tab) return;
    this.showing.add(state.tab);
    this.show(state.tab);
  }
}
