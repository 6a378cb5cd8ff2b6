// What this browser keeps for each tenant: saved questions and judged results. It leaves the browser only as a file.
import { access } from "./address.js";

const SAVED = "braid-saved";
const JUDGED = "braid-judged";
const MOST = 500;

const key = (name) => `${name}:${access().tenant}`;

function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key(name))) ?? otherwise;
  } catch {
    return otherwise; // kept by something else, or not to be kept at all
  }
}

function write(name, value) {
  try {
    localStorage.setItem(key(name), JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** Saved questions, the newest first: each the address of its question and controls. */
export const savedQuestions = () => read(SAVED, []);
export const isSaved = (address) => savedQuestions().includes(address);

/** Save a question, or forget it; false where this browser keeps nothing. */
export function keepQuestion(address, keep) {
  const others = savedQuestions().filter((one) => one !== address);
  return write(SAVED, keep ? [address, ...others].slice(0, MOST) : others);
}

/** Grades of results by their ids, of one question as it was asked; a question of another day is another. */
export const gradesOf = (asked) => read(JUDGED, {})[identity(asked)]?.relevant ?? {};

/** Grade a result of a question: 1 answers it, 0 does not, null takes the grade back. */
export function grade(asked, id, value) {
  const all = read(JUDGED, {});
  const relevant = Object.assign(Object.create(null), all[identity(asked)]?.relevant); // an id may be __proto__
  if (value === null) delete relevant[id];
  else relevant[id] = value;
  delete all[identity(asked)];
  if (Object.keys(relevant).length) all[identity(asked)] = { text: asked.text, as_of: asked.as_of, relevant };
  return write(JUDGED, all);
}

/** The judged questions as lines of a file for the commands that measure and tune. */
export function judgedLines() {
  return Object.values(read(JUDGED, {})).map(({ text, as_of, relevant }, place) =>
    JSON.stringify({ _id: `q${place + 1}`, text, relevant, ...(as_of ? { metadata: { as_of } } : {}) }));
}

const identity = (asked) => JSON.stringify([asked.text, asked.as_of ?? null]);
