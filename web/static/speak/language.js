// Guesses whether a text is not English from the most frequent words of English and of other languages in Latin script.
// Words such as “a”, “no” and “me” are of several languages and do not count. Texts in other scripts need no guess: a
// model that speaks only English refuses them.

const setOf = (words) => new Set(words.split(" "));
const ENGLISH = setOf(
  "the and or of to in it that you i he she we they was for are with his her at be this have has had from not but by " +
    "what all were when your can could there their our my him them who how did if will would about one out up more any some " +
    "been than then into its only over new very just now come go get see know say said please thank good day",
);
const OTHERS = setOf(
  "der das und ist nicht ein eine einen ich sie wir es mit für auf wie zu dem des im von haben sind auch aber nach bei aus wird " + // German
    "ihr ihnen mir mich dich sich schon noch nur wenn dass oder kann geht guten " +
    "le les et est une je vous nous pas dans que qui du ce il elle sur avec sont mais ou au aux cette votre mon être fait " + // French
    "el la los las en un una se lo al por con para del como más pero sus está muy ya este todo también " + // Spanish
    "di che non sono della nel gli ma anche questo mio alla ciao " + // Italian
    "os é um uma não em dos na mas você isso muito meu " + // Portuguese
    "het een dat op te zijn niet ik voor maar ook aan wat naar " + // Dutch
    "nie jest się że jak tak och att det som är inte jag med på til ikke og jeg", // Polish, Swedish, Danish and Norwegian
);
const ACCENTED = /^(?=.*[^a-z])\p{Ll}+$/u;
const READ = 4_000; // characters

// Two words of other languages are needed, and twice as many as English ones: some quoted words change nothing. They are
// in small letters, since names such as “Los Angeles” and “José” are in English texts, too.
export function isForeign(text) {
  const found = text.slice(0, READ).match(/\p{L}+/gu) ?? [];
  const english = found.filter((word) => ENGLISH.has(word.toLowerCase())).length;
  const others = found.filter((word) => OTHERS.has(word)).length;
  const accented = found.filter((word) => ACCENTED.test(word) && !OTHERS.has(word)).length;
  return others > 0 && others + accented > Math.max(1, 2 * english);
}
