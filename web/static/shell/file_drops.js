// A browser opens a file that is dropped where nothing takes it, in Firefox and Safari in place of the page.

// Refuses files that are dropped beside the places that take them. Those cancel the events before.
export function refuseFiles() {
  for (const kind of ["dragover", "drop"]) addEventListener(kind, refuse);
}

function refuse(event) {
  if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "none";
}
