// Gradio's status trackers count seconds in a loop of animation frames, at the screen's rate. This page shows none of the
// counts, and in Gradio 6.31 the loading screen's loop goes on for as long as the page is open.

const COUNTS_SECONDS = /performance\.now\(\).*1e3/s;

// Ends these loops at their next frame. Call before Gradio's scripts run, because they keep the function that they find.
export function endStatusTimers() {
  const request = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) => (COUNTS_SECONDS.test(callback) ? 0 : request(callback));
}
