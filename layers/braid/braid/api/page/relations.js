// Types of edges as words, read from one end or from the other. A type may be called as what every object has.
const FORWARD = { __proto__: null, MENTIONS: "mentioned in" };
const BACKWARD = {
  __proto__: null,
  CAUSES: "caused by",
  ENABLES: "enabled by",
  PREVENTS: "prevented by",
  BEFORE: "after",
  AFTER: "before",
  MENTIONS: "mentions",
  SUPERSEDES: "superseded by",
  PART_OF: "has part",
  OWNS: "owned by",
  DEPENDS_ON: "needed by",
  CALLS: "called by",
};

/** Those that answer questions of causes. */
export const CAUSAL = ["CAUSES", "ENABLES", "PREVENTS"];

/** A type in the direction in which it is stored. */
export const forward = (type) => FORWARD[type] ?? type.toLowerCase().replaceAll("_", " ");

/** A type in the direction in which it is walked; `turned` where only the arrow can say that this is the other one. */
export function walkedAs(type, inward) {
  if (!inward) return { words: forward(type), turned: false };
  return { words: BACKWARD[type] ?? forward(type), turned: !(type in BACKWARD) };
}

const WHO = new Set(["Person", "Team", "Organization", "Organisation", "Company"]);

/** The question that a relationship answers: its type is read as a verb where it looks like one, else as a noun. */
export function questionOf(type, source, target) {
  const words = type.toLowerCase().replaceAll("_", " ");
  if (/^(?:before|after|during)$/.test(words)) return `What happened ${words} ${target.name}?`;
  if (/^(?:part|[a-z]+ed|[a-z]+en)\b/.test(words)) return `What is ${words} ${target.name}?`;
  if (!/^[a-z]+[^s]s\b/.test(words)) return `What is the ${words} of ${source.name}?`;
  return `${WHO.has(source.entity_type) ? "Who" : "What"} ${words} ${target.name}?`;
}
