// Narrows a question down by the values that records have in the fields of their metadata.
import { access } from "./address.js";
import { byId, fill, h, shortened } from "./elements.js";
import { get, post } from "./server.js";

const SAMPLE = 50;
const MOST_FIELDS = 8;
const MOST_VALUES = 8;
const NEVER = new Set(["position", "line", "heading"]); // of chunks, which differ in them all
const known = new Map();
let shown = { asked: null, onChange: () => {} };

/** The fields worth counting, of a sample of the tenant's records. */
async function fields() {
  const { tenant } = access();
  if (!known.has(tenant)) {
    const { records } = await get(`records?limit=${SAMPLE}`);
    const counted = new Map();
    for (const record of records) {
      for (const name of Object.keys(record.metadata)) if (!NEVER.has(name)) counted.set(name, (counted.get(name) ?? 0) + 1);
    }
    known.set(tenant, [...counted].sort((one, other) => other[1] - one[1]).slice(0, MOST_FIELDS).map(([name]) => name));
  }
  return known.get(tenant);
}

/** The conditions as they are written, one a piece. */
const conditions = () => byId("where").value.split(";").map((one) => one.trim()).filter(Boolean);

/** Offer the values of each field for a question that was answered; choosing one calls `onChange`. */
export function offerFacets(asked, onChange) {
  shown = { asked, onChange };
  fill("facet-fields");
  if (conditions().length) byId("facets").open = true;
  if (byId("facets").open) count();
}

/** Count the values: apart from the answer, which would have to wait, and could not come from the cache. */
async function count() {
  const { asked } = shown;
  try {
    const facets = await fields();
    if (!facets.length) return fill("facet-fields", h("p", { class: "quiet" }, "The first records have no metadata to choose by."));
    const { text, filters, as_of } = asked;
    const counted = await post("search", { text, filters, as_of, facets, top_k: 1, reranker: "none", hints: { strategy: "semantic" } });
    if (asked === shown.asked) show(counted.facets);
  } catch (error) {
    if (asked === shown.asked) fill("facet-fields", h("p", { class: "quiet", role: "alert" }, `${error.title ?? "The values cannot be counted"}. ${error.detail ?? ""}`));
  }
  return undefined;
}

function show(facets) {
  const set = new Set(conditions());
  const choice = (name, { value, count: records }) => {
    const condition = `${name}=${value}`;
    return h("button", { type: "button", class: "choice", "aria-pressed": String(set.has(condition)), on: { click: () => {
      if (!set.delete(condition)) set.add(condition);
      byId("where").value = [...set].join("; ");
      shown.onChange();
    } } }, h("bdi", {}, shortened(String(value), 40)), h("span", { class: "figure" }, ` ${records.toLocaleString("en")}`));
  };
  fill("facet-fields", Object.entries(facets).filter(([, values]) => values.length).map(([name, values]) => h("p", { class: "facet" },
    h("span", { class: "quiet" }, shortened(name, 40)),
    values.filter(({ value }) => !String(value).includes(";")).slice(0, MOST_VALUES).map((one) => choice(name, one)))));
}

byId("facets").addEventListener("toggle", () => {
  if (byId("facets").open && shown.asked && !byId("facet-fields").hasChildNodes()) count();
});
