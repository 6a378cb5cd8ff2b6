// The tenants that the token may see, and what it may do there.
import { access, keepTenant } from "./address.js";
import { byId, fill, h } from "./elements.js";
import { get } from "./server.js";

let asked = { token: null, answer: null };

/** Who the token's owner is to the server; asked once for each token. */
export function whoAmI() {
  const { token } = access();
  if (asked.token !== token || !asked.answer) {
    const answer = get("access", undefined, { tenant: "" }); // it says which there are
    asked = { token, answer };
    answer.catch(() => {
      if (asked.answer === answer) asked.answer = null;
    });
  }
  return asked.answer;
}

/** What may be done in the tenant that is asked: its role, and the most bytes of a request. */
export async function mine() {
  const { tenant_id, tenants, max_body_bytes } = await whoAmI();
  const tenant = access().tenant || tenant_id;
  const role = tenants.find((one) => one.tenant_id === tenant)?.role ?? "reader";
  return { tenant, role, mostBytes: max_body_bytes };
}

/** Offer the tenants to switch between; of a single one show the name. */
export async function showTenants() {
  byId("switch").hidden = true;
  byId("whose").textContent = access().tenant || (access().token ? "Access" : "No token yet");
  if (!access().token) return;
  const { tenants } = await whoAmI();
  const { tenant } = await mine();
  keepTenant(tenant);
  if (tenants.length < 2 || !tenants.some((one) => one.tenant_id === tenant)) return;
  fill("tenant", tenants.map((one) => h("option", { value: one.tenant_id }, one.tenant_id)));
  byId("tenant").value = tenant;
  byId("switch").hidden = false;
  byId("whose").textContent = "Access";
}
