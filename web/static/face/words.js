// The page's words in the language that the page is in. Given by the page: WORDS, { language: { key: text } }.

function wordsIn(language) {
  const places = [language, language.split("-")[0], "en"];
  const texts = WORDS[places.find((place) => place in WORDS)];
  return (key, values = {}) => texts[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// Gradio says in the document which language it chose.
const words = wordsIn(document.documentElement.lang || "en");

// Fills in what the markup leaves open: data-say for text, data-say-label for what screen readers say.
for (const node of element.querySelectorAll("[data-say]")) node.textContent = words(node.dataset.say);
for (const node of element.querySelectorAll("[data-say-label]")) node.setAttribute("aria-label", words(node.dataset.sayLabel));
for (const node of element.querySelectorAll("[data-say-title]")) node.title = words(node.dataset.sayTitle);
