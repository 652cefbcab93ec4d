// 128 random bits as hexadecimal digits: the name of something that no one else may guess or share.
export const randomName = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
