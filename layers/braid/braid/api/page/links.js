// Addresses of the page's views: a question, a document, an entity.
import { access } from "./address.js";
import { h } from "./elements.js";

/** The address of a view, by what it shows. */
export function to(view) {
  const { tenant } = access();
  return `#${new URLSearchParams({ ...view, ...(tenant ? { tenant } : {}) })}`;
}

/** The document that a record is a chunk of: its id up to a "#". */
export const documentOf = (id) => id.split("#", 1)[0] || id;

/** A record's or entity's own page, by its id and kind; a chunk's is its document's. */
export const pageOf = (id, kind) => (kind === "chunk" ? to({ document: documentOf(id), chunk: id }) : to({ entity: id }));

/** A result's name as a link to its page; facts have none. */
export const linkOf = (result, name) =>
  result.facts || result.kind === "fact" ? h("bdi", {}, name) : link(pageOf(result.id, result.kind), name);

export const link = (address, name, attributes = {}) => h("a", { href: address, ...attributes }, h("bdi", {}, name));
