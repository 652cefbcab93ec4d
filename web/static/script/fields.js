// Fields that show values of the server.

// Sets a field unless it is being edited; returns whether it was set.
export function show(field, value) {
  const edited = document.activeElement === field && ![field.shown, value].includes(field.value);
  if (field.shown === value || edited) return false;
  field.value = field.shown = value;
  return true;
}

// Whether a field of `show` has another value than the server.
export const isEdited = (field) => "shown" in field && field.value !== field.shown;

// Has `fill` show the stored value again if the field's value was refused, unless the field was changed meanwhile.
// answer: resolves to null if it was refused; the message says why.
export async function sent(field, answer, fill) {
  const { value } = field;
  if ((await answer) || field.value !== value) return;
  field.shown = value; // so that it can be replaced
  fill();
}
