// A long list shows its first items, and further ones once the last one shown comes into view.

const STEP = 60; // items

export class LongList {
  // list: the element with the items. show(): shows the items that `of` returns, then calls `shown`.
  constructor(list, show) {
    Object.assign(this, { list, show, limit: STEP, more: false });
    this.seen = new IntersectionObserver((entries) => entries.some(({ isIntersecting }) => isIntersecting) && this.grow());
  }

  // The items to show: the first ones, and those that are kept.
  of(items, kept) {
    this.more = items.length > this.limit;
    return items.filter((item, i) => i < this.limit || kept(item));
  }

  shown() {
    this.seen.disconnect();
    if (this.more) this.seen.observe(this.list.lastElementChild);
  }

  grow() {
    this.limit += STEP;
    this.show();
  }

  // Shows the first items only, as for another search.
  restart() {
    this.limit = STEP;
    this.show();
  }
}
