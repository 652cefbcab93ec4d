// Times as the page writes them.

const clock = (time) => `${Math.floor(time / 60)}:${String(Math.floor(time % 60)).padStart(2, "0")}`;
const tenths = (time) => `${time.toFixed(1)} s`;
const hundredths = (time) => `${time.toFixed(2)} s`;

// Milliseconds from the click to the first sound; null while there is none.
function firstSound({ clickedAt, firstSoundAt }) {
  return firstSoundAt === null ? null : Math.max(0, Math.round(firstSoundAt - clickedAt));
}
