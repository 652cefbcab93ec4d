// Guesses whether a text is not English from the most frequent words of English and of other languages in Latin script.
// Words such as “a”, “no” and “me” are of several languages and do not count. Texts in other scripts need no guess: a
// model that speaks only English refuses them.

const SET = (words) => new Set(words.split(" "));
const ENGLISH = SET(
  "the and or of to in it that you i he she we they was for are with his her at be this have has had from not but by " +
    "what all were when your can could there their our my him them who how did if will would about one out up more any some " +
    "been than then into its only over new very just now come go get see know say said please thank good day",
);
const OTHERS = SET(
  "der das und ist nicht ein eine einen ich sie wir es mit für auf wie zu den dem des im von hat haben sind auch aber nach bei aus wird " + // German
    "ihr ihnen mir mich dich sich schon noch nur wenn dass oder kann geht guten " +
    "le la les et est une je vous nous pas dans pour que qui du ce il elle sur avec plus sont mais ou au aux cette votre mon être fait " + // French
    "el los las en un una se lo por con para su al del como más pero sus está son muy ya hay mi este todo también " + // Spanish
    "di che non per sono della nel gli ha ma anche questo mio alla ciao " + // Italian
    "os é um uma não em dos na mas você isso muito meu " + // Portuguese
    "het een van dat op te zijn niet ik voor met maar ook aan wat naar " + // Dutch
    "nie jest się że jak tak och att det som är inte jag med på til ikke og jeg", // Polish, Swedish, Danish and Norwegian
);
const ACCENTED = /[^a-z]/;
const READ = 4_000; // characters

// Two words of other languages are needed, and twice as many as English ones: some quoted words change nothing.
export function isForeign(text) {
  const found = text.slice(0, READ).toLowerCase().match(/\p{L}+/gu) ?? [];
  const english = found.filter((word) => ENGLISH.has(word)).length;
  const others = found.filter((word) => OTHERS.has(word)).length;
  const accented = found.filter((word) => ACCENTED.test(word) && !OTHERS.has(word)).length;
  return others > 0 && others + accented > Math.max(1, 2 * english);
}
