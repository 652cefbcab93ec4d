// Moves cards of a script by dragging. On the keyboard, Alt with the arrow keys moves them (script/script_view.js).

export class CardDrag {
  // list: the element of the cards. cards(): their nodes without deleted ones, each with its `view`. drop(card, position): moves a card.
  constructor(list, cards, drop) {
    Object.assign(this, { list, cards, drop, dragged: null });
    list.addEventListener("dragover", (event) => this.over(event));
    list.addEventListener("drop", (event) => this.end(event));
    list.addEventListener("dragend", () => this.stop());
  }

  begin(event, view) {
    this.dragged = view;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", view.card.text);
    event.dataTransfer.setDragImage(view.node, 20, 20);
    view.node.toggleAttribute("data-dragged", true);
  }

  over(event) {
    if (!this.dragged) return;
    event.preventDefault();
    this.mark(event.clientY);
  }

  // Marks the drop position: before the first card whose middle is below the pointer.
  mark(y) {
    const cards = this.cards();
    const place = cards.findIndex((node) => y < middleOf(node));
    for (const node of cards) for (const name of ["data-before", "data-after"]) node.toggleAttribute(name, false);
    this.place = place < 0 ? cards.length : place;
    const at = cards[place] ?? cards.at(-1);
    at.toggleAttribute(place < 0 ? "data-after" : "data-before", true);
  }

  end(event) {
    if (!this.dragged) return;
    event.preventDefault();
    const { dragged, place } = this;
    const from = this.cards().indexOf(dragged.node);
    this.stop();
    const position = landing(from, place);
    if (position !== from) this.drop(dragged.card, position);
  }

  stop() {
    this.dragged?.node.toggleAttribute("data-dragged", false);
    this.dragged = null;
    for (const node of this.list.children) for (const name of ["data-before", "data-after"]) node.toggleAttribute(name, false);
  }
}

function middleOf(node) {
  const { top, height } = node.getBoundingClientRect();
  return top + height / 2;
}

// The new position of the card at `from` when it is dropped before the card at `place`.
export const landing = (from, place) => (place > from ? place - 1 : place);
