// Makes elements. Whatever a store returned goes in as text: nothing here reads HTML.
const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** Make an HTML element: attributes that are null or false are left out, `on` holds listeners. */
export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Make an SVG element. */
export function s(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Replace what an element holds. */
export function fill(id, ...children) {
  byId(id).replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
}

/** Set a length that only the data know; the policy allows no style attribute, but this. */
export function sized(element, lengths) {
  for (const [name, value] of Object.entries(lengths)) element.style.setProperty(name, value);
  return element;
}

export const STRANDS = {
  vector: "vectors",
  lexical: "words",
  knowledge: "names",
  graph: "graph",
};

/** A text that keeps its own direction of writing, whatever stands around it; for where there can be no <bdi>. */
export const apart = (text) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u.test(text) ? `\u2068${text}\u2069` : text);
export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
export const share = (value) => `${Math.round(value * 100)} %`;
export const milliseconds = (value) => (value < 10 ? `${value.toFixed(1)} ms` : `${Math.round(value).toLocaleString("en")} ms`);
export const day = (moment) => moment.slice(0, 10);
export const shortened = (text, length) => (text.length > length ? `${text.slice(0, length - 1).trimEnd()}…` : text);
