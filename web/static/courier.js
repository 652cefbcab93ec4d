// Hands a file to the browser straight from the event that made it, so that nothing of the library is written into a
// folder that is served. The value is { name, data } with base64 data. Given by the page: props, watch.

watch("value", () => {
  if (!props.value?.data) return;
  const bytes = Uint8Array.from(atob(props.value.data), (letter) => letter.charCodeAt(0));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes]));
  link.download = props.value.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  props.value = null;
});
