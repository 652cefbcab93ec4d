// Drops stale answers. The server's answers may arrive out of order. Of events that only show something, only the answer
// to the latest request counts. No answer overwrites a component that the user changed after the request was sent.

// Marks in the scripts of events (web/ui/events.py). LATEST: if the event is sent again, its earlier answers are dropped whole.
// REPEATED: if no answer comes, the event is sent again.
const SHOWS = "only the latest answer counts";
const LATEST = "only the latest press counts";
const REPEATED = "repeated if it is lost";
const FOLLOWING = ["then", "success", "failure"]; // kinds of targets: the event follows another one
const FIELDS = ["textbox", "slider"]; // types of the components into which the user enters text or numbers
export const UNCHANGED = { __type__: "update" }; // Gradio leaves the component as it is

const UNSENT = Infinity;
// The components whose change an event follows.
const changedIn = ({ targets = [] }) => targets.filter(([, kind]) => kind === "input").map(([component]) => component);

const isUpdate = (value) => value?.__type__ === "update";
const isUnchanged = (value) => isUpdate(value) && Object.keys(value).length === 1;

export class LatestAnswers {
  // events: from Gradio's configuration, { id, targets, inputs, outputs, js, backend_fn }. Components are identified by their ids.
  constructor(events) {
    this.events = new Map(events.map((event) => [event.id, event]));
    this.sending = new Set(events.filter(({ backend_fn: isSent }) => isSent).flatMap(changedIn)); // components whose choices are sent
    this.count = 0; // numbers requests and choices in order
    this.requests = new Map(); // by component: numbers of the requests that fill it, except failed ones
    this.sent = new Map(); // by event: number of its last request, if only that one counts
    this.choices = new Map(); // by component: number of the user's last choice, or UNSENT
  }

  // Called when an event is sent. Returns its request, for `failed` or `settle`.
  ask(id) {
    const { inputs = [], outputs = [], targets = [], js } = this.events.get(id) ?? {};
    const has = (mark) => Boolean(js?.includes?.(mark));
    const follows = targets.some(([, kind]) => FOLLOWING.includes(kind));
    const request = { id, number: ++this.count, outputs, shows: has(SHOWS), repeats: has(REPEATED), follows };
    const carried = request.shows ? [] : inputs.filter((component) => this.choices.get(component) === UNSENT);
    for (const component of carried) this.choices.set(component, request.number);
    if (js?.includes?.(LATEST)) this.sent.set(id, request.number);
    if (request.shows) outputs.forEach((component) => this.note(request, component));
    return request;
  }

  // Called when the user changed a component, before the event that sends the choice, if there is one. That event may wait for
  // the end of an earlier one; what is requested meanwhile does not know the choice.
  chose(component) {
    this.choices.set(component, this.sending.has(component) ? UNSENT : ++this.count);
  }

  // Counts each entry into a field as a choice. Gradio's own event leaves out what is pasted, dictated or composed by an
  // input method. components: from Gradio's configuration, { id, type, props }.
  noteEntries(components, page = document) {
    const inputs = components.filter(({ type }) => FIELDS.includes(type));
    const fields = new Map(inputs.map(({ id, props }) => [props.elem_id, id]));
    const fieldOf = (target) => fields.get(target.closest('[id^="rp-"]')?.id);
    page.addEventListener("input", ({ target }) => this.chose(fieldOf(target)), { capture: true });
  }

  // Called when no answer will come: answers to earlier requests count again.
  failed({ id, number, outputs }) {
    if (this.sent.get(id) === number) this.sent.delete(id);
    for (const component of outputs) this.requests.get(component)?.delete(number);
  }

  // Returns an answer's values, one per output, with stale ones taken out.
  settle(request, values) {
    if (this.sent.get(request.id) > request.number) return values.map(() => UNCHANGED);
    return values.map((value, i) => this.current(request, request.outputs[i], value));
  }

  current(request, component, value) {
    if (request.shows && this.overtaken(request, component)) return UNCHANGED;
    // An action counts as a request for the outputs that its answer sets.
    if (!request.shows && !isUnchanged(value)) this.note(request, component);
    if (!(this.choices.get(component) > request.number)) return value;
    if (!isUpdate(value)) return UNCHANGED;
    const { value: _late, selected: _tab, ...others } = value;
    return others;
  }

  note({ number }, component) {
    const numbers = this.requests.get(component) ?? new Set();
    this.requests.set(component, numbers.add(number));
  }

  overtaken({ number }, component) {
    const numbers = this.requests.get(component);
    const later = Math.max(...numbers) > number;
    if (!later) numbers.forEach((each) => each < number && numbers.delete(each)); // their answers are stale from now on
    return later;
  }
}
