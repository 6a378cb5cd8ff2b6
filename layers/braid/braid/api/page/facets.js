// Narrows a question down by the values that records have in the fields of their metadata.
import { byId, fill, h, shortened } from "./elements.js";
import { get } from "./server.js";

const SAMPLE = 50;
const MOST_FIELDS = 8;
const MOST_VALUES = 8;
const NEVER = new Set(["position", "line", "heading"]); // of chunks, which differ in them all
const known = new Map();

/** The fields worth counting, of a sample of a tenant's records; none where it cannot be read. */
export async function fields(tenant) {
  if (!known.has(tenant)) known.set(tenant, await sampled());
  return known.get(tenant);
}

async function sampled() {
  try {
    const { records } = await get(`records?limit=${SAMPLE}`);
    const counted = new Map();
    for (const record of records) {
      for (const name of Object.keys(record.metadata)) if (!NEVER.has(name)) counted.set(name, (counted.get(name) ?? 0) + 1);
    }
    return [...counted].sort((one, other) => other[1] - one[1]).slice(0, MOST_FIELDS).map(([name]) => name);
  } catch {
    return [];
  }
}

/** The conditions as they are written, one a piece. */
export const conditions = () => byId("where").value.split(";").map((one) => one.trim()).filter(Boolean);

/** Show the values of each field; choosing one asks again with it as a condition, or without. */
export function showFacets(answer, onChange) {
  const set = new Set(conditions());
  const shown = Object.entries(answer.facets ?? {})
    .map(([name, values]) => [name, values.filter(({ value }) => !/[;]/.test(String(value)))])
    .filter(([name, values]) => values.length > 1 || values.some(({ value }) => set.has(`${name}=${value}`)));
  byId("facets").hidden = shown.length === 0;
  fill("facet-fields", shown.map(([name, values]) => h("p", { class: "facet" },
    h("span", { class: "quiet" }, shortened(name, 40)),
    values.slice(0, MOST_VALUES).map(({ value, count }) => {
      const condition = `${name}=${value}`;
      return h("button", { type: "button", class: "choice", "aria-pressed": String(set.has(condition)), on: { click: () => {
        if (!set.delete(condition)) set.add(condition);
        byId("where").value = [...set].join("; ");
        onChange();
      } } }, h("bdi", {}, shortened(String(value), 40)), h("span", { class: "figure" }, ` ${count}`));
    }))));
}
