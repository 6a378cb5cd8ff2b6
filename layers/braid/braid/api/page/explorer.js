// Ties the page together: what is asked, what is shown, and what the address says.
import { access, address, arrived, changes, keepAccess, lacking, question, reset, setBalance, show } from "./address.js";
import { showBeside } from "./compare.js";
import { showDocument } from "./document.js";
import { byId, fill, h, milliseconds, plural } from "./elements.js";
import { closeEntity, openEntity } from "./entity_below_graph.js";
import { showEntity } from "./entity_page.js";
import { offerFacets } from "./facets.js";
import { keepDrawn, point, showGraph } from "./graph.js";
import { leaveHome, showHome } from "./home.js";
import { isSaved, keepQuestion } from "./kept.js";
import { notices, showPlan, showWeights, summary } from "./plan.js";
import { showResults } from "./results.js";
import { post } from "./server.js";
import { showOrder, showStrands } from "./strands.js";
import { showTenants } from "./tenants.js";
import { showTimings } from "./timings.js";

const STILL_ASKING_MS = 4000;
let asking = null;
let last = { text: null, ranks: null };

async function ask({ remember = true } = {}) {
  if (remember && `#${address()}` !== location.hash) history.pushState(null, "", `#${address()}`);
  const asked = question();
  if (!asked.text) return welcome();
  asking?.abort();
  asking = new AbortController();
  const mine = asking;
  leaveHome();
  byId("stored").hidden = true;
  document.title = `${asked.text} – Braid`;
  markChanges();
  const lacks = lacking(asked);
  if (lacks) {
    openControls();
    return refuse(lacks);
  }
  said("Asking …");
  busy(true);
  const still = setTimeout(() => said("Still asking … A first question after a quiet time takes longer, and so does a busy store."), STILL_ASKING_MS);
  try {
    const answer = await post("search", asked, mine.signal);
    if (mine.signal.aborted) return undefined;
    showAnswer(answer, asked);
    showBeside(answer, asked, mine.signal);
  } catch (error) {
    if (error.name === "AbortError" || mine.signal.aborted) return undefined;
    refuse(error);
  } finally {
    clearTimeout(still);
    if (asking === mine) busy(false);
  }
  return undefined;
}

/** Let a line above the page and the fading answer say that another is on its way. */
function busy(is) {
  document.body.toggleAttribute("data-asking", is);
  byId("answer").setAttribute("aria-busy", String(is));
}

function showAnswer(answer, asked) {
  const before = last.text === asked.text ? last.ranks : null;
  last = { text: asked.text, ranks: new Map(answer.results.map((result) => [result.id, result.rank])) };
  const open = (id) => openEntity(id, { asOf: asked.as_of, onWithin: within });
  closeEntity();
  byId("answer").hidden = false;
  byId("summary").textContent = summary(answer);
  fill("notices", notices(answer));
  offerFacets(asked, ask);
  showSaved();
  showResults(answer, asked, before, { onEntity: open, onPoint: point });
  if (!answer.results.length) fill("results", h("li", { class: "nothing" }, nothing(answer)));
  showPlan(answer);
  showWeights(answer);
  showTimings(answer);
  showGraph(answer, open);
  showStrands(answer);
  showOrder(answer);
  byId("request-text").textContent =
    `POST ${new URL("../search", import.meta.url)}\nAuthorization: Bearer …\n\n${JSON.stringify(asked, null, 2)}\n\ntrace ${answer.trace_id}`;
  said([
    plural(answer.results.length, "result"),
    `in ${milliseconds(answer.latency_ms.total)}`,
    asked.as_of ? `as of ${asked.as_of}` : "",
    answer.cached ? "from the cache" : "",
    answer.degraded.length ? "degraded" : "",
  ].filter(Boolean).join(" · "));
}

function nothing(answer) {
  if (answer.unknown_entity) return "Nothing is reached from an entity that the graph does not know.";
  return answer.superseded
    ? "Nothing that holds at this moment answers this; another “as of” may."
    : "Nothing was found. Fewer conditions or other words may help; if nothing is stored yet, braid ingest brings your own.";
}

function refuse(error) {
  said("");
  byId("answer").hidden = true;
  const title = error.title ?? "The page failed";
  fill("notices", h("div", { class: "notice refused", role: "alert" },
    h("strong", {}, title),
    error.detail || !error.title ? h("p", {}, error.detail || String(error.message)) : null,
    error.fields?.length
      ? h("ul", {}, error.fields.map((field) => h("li", {}, h("code", {}, field.field), ` ${field.detail}`)))
      : null,
    error.again ? h("button", { type: "button", on: { click: () => ask() } }, "Try again") : null));
  if (error.status === 401 || error.status === 403) byId("access").open = true;
}

function welcome() {
  leave();
  document.title = "Braid explorer";
  showHome({ onAsk: begin, onRefused: refuse });
}

/** Show the page of a document or an entity. */
async function look(given) {
  leave();
  asking = new AbortController();
  const present = asking;
  byId("stored").hidden = false;
  fill("stored", h("p", { class: "quiet", role: "status" }, "Reading …"));
  busy(true);
  try {
    const chosen = given.has("document")
      ? await showDocument(given.get("document"), given.get("chunk"), present.signal)
      : await showEntity(given.get("entity"), { onWithin: within, onAsk: begin }, present.signal);
    (chosen ?? byId("stored").querySelector(".title")).focus({ preventScroll: !chosen });
    chosen?.scrollIntoView({ block: "start" });
  } catch (error) {
    if (error.name !== "AbortError" && !present.signal.aborted) refuse(error);
  } finally {
    if (asking === present) busy(false);
  }
}

/** Leave what is shown, for another view. */
function leave() {
  asking?.abort();
  busy(false);
  leaveHome();
  byId("answer").hidden = true;
  byId("stored").hidden = true;
  fill("stored");
  fill("notices");
  said("");
}

function begin(text, controls = {}) {
  reset();
  byId("text").value = text;
  for (const [name, value] of Object.entries(controls)) byId(name).value = value;
  if (Object.keys(controls).length) openControls();
  ask();
}

function within(id) {
  byId("within").value = id;
  openControls();
  ask();
  byId("text").focus();
}

/** Show the controls where there is room for them above the answer; elsewhere their number is said. */
function openControls() {
  if (matchMedia("(min-width: 40rem)").matches) byId("controls").open = true;
}

function said(text) {
  byId("said").textContent = text;
}

function markChanges() {
  const count = changes();
  byId("changed").textContent = count ? `${plural(count, "change")}` : "";
}

async function arrive() {
  const given = arrived();
  show(given);
  byId("token").value = access().token;
  markChanges();
  if (changes()) openControls();
  try {
    await showTenants();
  } catch {
    // whatever is asked next meets the same refusal, and shows it
  }
  if (given.has("document") || given.has("entity")) look(given);
  else ask({ remember: false });
}

function showSaved() {
  const saved = isSaved(String(address()));
  byId("save").textContent = saved ? "Saved: forget this question" : "Save this question";
  byId("save").setAttribute("aria-pressed", String(saved));
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
byId("access-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepAccess({ token: byId("token").value.trim(), tenant: "" });
  byId("access").open = false;
  arrive();
});
byId("tenant").addEventListener("change", (event) => {
  location.hash = new URLSearchParams({ tenant: event.target.value });
});
byId("save").addEventListener("click", () => {
  const kept = keepQuestion(String(address()), !isSaved(String(address())));
  said(kept ? "Saved questions stand on the first page, in this browser alone." : "This browser keeps nothing for this page.");
  showSaved();
});
byId("balance").addEventListener("input", (event) => setBalance(Number.parseFloat(event.target.value)));
byId("controls").addEventListener("change", () => ask());
byId("reset").addEventListener("click", () => {
  reset();
  ask();
});
byId("copy").hidden = !navigator.clipboard; // only where the page came over HTTPS or from this machine
byId("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(location.href);
  said("The link is copied. It holds question and controls, and no token.");
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address after "#" is the question's
  byId("text").focus();
});
addEventListener("popstate", arrive);
addEventListener("keydown", (event) => {
  const writing = event.target.closest?.("input, select, textarea");
  if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    byId("text").focus();
    byId("text").select();
  } else if (event.key === "Escape" && byId("access").open) {
    byId("access").open = false;
    byId("access").querySelector("summary").focus();
  }
});
keepDrawn();
arrive();
