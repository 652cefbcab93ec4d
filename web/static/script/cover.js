// The cover of an audiobook: a picture from a file, scaled down to be sent with a request.

const SIDE = 1_000; // pixels at most
const QUALITY = 0.85;

// Resolves to a JPEG in base64; null if the file is not a picture.
export async function coverOf(file) {
  try {
    const picture = await createImageBitmap(file);
    const share = Math.min(1, SIDE / Math.max(picture.width, picture.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(picture.width * share));
    canvas.height = Math.max(1, Math.round(picture.height * share));
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/jpeg", QUALITY).split(",")[1];
  } catch {
    return null;
  }
}
