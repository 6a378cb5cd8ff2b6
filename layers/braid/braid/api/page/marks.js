// Shows which of a question's words a text has, by comparing words without their commonest endings.
import { h } from "./elements.js";

const WORD = /[\p{L}\p{N}]+/gu;
const EVERYWHERE = new Set(
  ("about after all and any are because been before but can could did does doing for from had has have her his how into its " +
    "may not our out over shall she should some than that the their them then there they this those under was were what when " +
    "where which while who whom whose why will with would you your").split(" "),
);
const LEAST = 3;

/** Return the words of a question that tell something. */
export const telling = (question) =>
  new Set([...question.matchAll(WORD)].map(([word]) => stem(word)).filter((word) => word.length >= LEAST && !EVERYWHERE.has(word)));

/** Return a text in parts: its answering sentence, which begins and ends at `span`, as <strong>, and words as <mark>. */
export function said(text, span, wanted) {
  if (!span) return marked(text, wanted);
  const characters = [...text]; // a span counts characters, and a string is indexed by halves of some
  const [before, sentence, after] = [[0, span[0]], span, [span[1]]].map((ends) => characters.slice(...ends).join(""));
  return [...marked(before, wanted), h("strong", { class: "said" }, marked(sentence, wanted)), ...marked(after, wanted)];
}

/** Return a text in parts, the words among `wanted` as <mark>. */
function marked(text, wanted) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(WORD)) {
    if (!wanted.has(stem(match[0]))) continue;
    parts.push(text.slice(end, match.index), h("mark", {}, match[0]));
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

function stem(word) {
  const small = word.toLowerCase();
  return small.length > 4 ? small.replace(/(?:ing|ed|es|s)$/u, "") : small;
}
