// The question and the controls are in the address after "#", which a browser sends to no server; the token never is.
import { byId } from "./elements.js";

const CONTROLS = ["fusion", "intent", "strategy", "ranking", "reranker", "as_of", "within", "where", "compare", "k"];
const KEPT = { token: "braid-token", tenant: "braid-tenant" };

const OWN_MACHINE = ["localhost", "127.0.0.1", "[::1]"];

/**
 * Read the address, move a token out of it into this tab's memory, and return the rest.
 *
 * Elsewhere than on one's own machine a token is taken only if that is wanted: anybody can make a link with a token of
 * their own, and would see what is asked and uploaded with it.
 */
export function arrived() {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token");
  if (token) {
    given.delete("token");
    const isKnown = token === access().token || OWN_MACHINE.includes(location.hostname);
    if (isKnown || confirm(asksFor(given.get("tenant")))) {
      keepAccess({ token, tenant: given.get("tenant") ?? "" });
    } else {
      given.delete("tenant");
    }
    history.replaceState(null, "", `#${given}`);
  } else if (given.has("tenant")) {
    sessionStorage.setItem(KEPT.tenant, given.get("tenant"));
  }
  return given;
}

const asksFor = (tenant) =>
  `This link brings a token${tenant ? ` for the tenant ${JSON.stringify(tenant)}` : ""}. Whoever made the link may see ` +
  "what you ask and upload with it. Use it only if you expected such a link.";

/** The token and the tenant that this tab asks with; empty where there is none. */
export function access() {
  return { token: sessionStorage.getItem(KEPT.token) ?? "", tenant: sessionStorage.getItem(KEPT.tenant) ?? "" };
}

export function keepAccess({ token, tenant }) {
  sessionStorage.setItem(KEPT.token, token);
  sessionStorage.setItem(KEPT.tenant, tenant);
}

/** Which tenant a token that named none was found to be of. */
export const keepTenant = (tenant) => sessionStorage.setItem(KEPT.tenant, tenant);

/** Write the controls from an address. */
export function show(given) {
  byId("text").value = given.get("q") ?? "";
  for (const name of CONTROLS) {
    const control = byId(name);
    control.value = given.get(name) ?? "";
    if (control.value !== (given.get(name) ?? "")) control.value = "";
  }
  const balance = Number.parseFloat(given.get("balance") ?? "");
  setBalance(balance >= 0 && balance <= 1 ? balance : null);
}

/** Read the controls into an address. */
export function address() {
  const shown = new URLSearchParams();
  const text = byId("text").value.trim();
  if (text) shown.set("q", text);
  if (balance() !== null) shown.set("balance", String(balance()));
  for (const name of CONTROLS) if (byId(name).value.trim()) shown.set(name, byId(name).value.trim());
  if (access().tenant) shown.set("tenant", access().tenant);
  return shown;
}

/** How many controls stand otherwise than the plan would have them. */
export const changes = () => [...address().keys()].filter((name) => name !== "q" && name !== "tenant" && name !== "k").length;

/** The graph's share as set by hand; null while the plan decides. */
export function balance() {
  const range = byId("balance");
  return range.dataset.set === undefined ? null : Number.parseFloat(range.value);
}

export function setBalance(value) {
  const range = byId("balance");
  if (value === null) delete range.dataset.set;
  else range.dataset.set = "";
  range.value = String(value ?? 0.5);
  const graph = Math.round((value ?? 0.5) * 100);
  const said = value === null ? "planned" : `${100 - graph} % text, ${graph} % graph`;
  byId("balance-said").value = said;
  range.setAttribute("aria-valuetext", said);
}

/** The body of POST /search that the controls ask for. */
export function question() {
  const value = (name) => byId(name).value.trim();
  const asked = { text: value("text"), top_k: Number.parseInt(value("k") || "5", 10), explain: true };
  for (const name of ["fusion", "intent", "ranking", "reranker"]) if (value(name)) asked[name] = value(name);
  if (balance() !== null) {
    asked.vector_weight = Math.round((1 - balance()) * 100) / 100;
    asked.graph_weight = balance();
  }
  if (value("as_of")) asked.as_of = value("as_of");
  if (value("strategy")) asked.hints = { strategy: value("strategy") };
  if (value("within")) asked.graph_constraint = { entity: value("within"), depth: 2 };
  const where = value("where").split(";").map((one) => one.trim()).filter(Boolean);
  if (where.length) asked.filters = { metadata: where };
  return asked;
}

/** What the controls still lack to be a question, in their own words; null when nothing. */
export function lacking(asked) {
  return asked.hints?.strategy === "graph_first" && !asked.graph_constraint
    ? { title: "Graph first begins at an entity", detail: "Name one under “Only what this reaches”, and only that will be searched." }
    : null;
}

export function reset() {
  for (const name of CONTROLS) if (name !== "k") byId(name).value = "";
  setBalance(null);
}
