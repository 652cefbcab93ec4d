// Gradio's messages about failed requests. They are in English, and the page says itself what has failed.

const FADES = 1_000; // ms in which a closed message disappears

export function closeMessages() {
  for (const close of document.querySelectorAll("[data-testid=toast-close]")) close.click();
}

// Wraps Gradio's function that uploads a file, which shows a message with the whole response when the server refuses it.
export function withoutMessages(upload) {
  const hide = (on) => document.documentElement.toggleAttribute("data-rp-refused", on);
  return async (file) => {
    try {
      return await upload(file);
    } catch (error) {
      hide(true);
      setTimeout(closeMessages); // Gradio adds the message after this
      setTimeout(() => hide(false), FADES);
      throw error;
    }
  };
}
