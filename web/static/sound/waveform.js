// A waveform on a canvas: bars in the theme's colours, sharp on every screen.

const BAR_WIDTH = 2.5; // CSS pixels
const BAR_STEP = 4;

export class Waveform {
  // area: the element that the canvas fills. paint(pen, width, height, colour) draws, in CSS pixels; colour(name) is
  // the value of a CSS variable.
  constructor(area, paint) {
    Object.assign(this, { area, paint, canvas: area.querySelector("canvas"), frame: null });
    new ResizeObserver(() => this.draw()).observe(area);
    // Gradio switches to the dark theme by a class.
    new MutationObserver(() => this.draw()).observe(document.body, { attributeFilter: ["class"] });
  }

  // Draws once before the next frame, however often it is called.
  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.drawNow();
    });
  }

  drawNow() {
    const scale = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.area;
    const [across, down] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== across) this.canvas.width = across;
    if (this.canvas.height !== down) this.canvas.height = down;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const style = getComputedStyle(this.area);
    this.paint(pen, width, height, (name) => style.getPropertyValue(name));
  }
}

// bars: loudness 0 to 1, or null where there is nothing yet; colourOf(share of the width, bar).
export function paintBars(pen, bars, height, colourOf) {
  bars.forEach((bar, index) => {
    const size = Math.max(2, Math.sqrt(bar ?? 0) * (height - 6)); // loudness is perceived by a power law
    pen.fillStyle = colourOf((index + 0.5) / bars.length, bar);
    pen.beginPath();
    pen.roundRect(index * BAR_STEP, (height - size) / 2, BAR_WIDTH, size, BAR_WIDTH / 2);
    pen.fill();
  });
}

export const barCount = (width) => Math.max(1, Math.floor(width / BAR_STEP));

export function paintLine(pen, x, height, colour) {
  pen.fillStyle = colour;
  pen.fillRect(x - 1, 0, 2, height);
}
