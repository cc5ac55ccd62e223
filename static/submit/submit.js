// Says in whole hosts, cores and GB what is being asked for, while one types; keeps to what the team may ask for; leads to
// the first error; sends once.
import { Outlook } from "./outlook.js";
import { JobText } from "./text.js";

const form = document.getElementById("submitform");
const value = (name) => Number(form.elements[name].value);

function asked() {
  const gpus = value("gpu_count");
  if (!Number.isInteger(gpus) || gpus < 1) return "";
  const parts = [gpus === 1 ? "1 GPU" : `${gpus.toLocaleString("en")} GPUs`];
  if (gpus > 8) parts.push(`${Math.ceil(gpus / 8).toLocaleString("en")} hosts of 8`);
  const cores = gpus * value("cpu_per_rank"), memory = gpus * value("memory_per_rank_gb");
  if (cores > 0) parts.push(`${cores.toLocaleString("en")} cores`);
  if (memory > 0) parts.push(memory >= 1024 ? `${(memory / 1024).toFixed(1)} TB memory` : `${memory} GB memory`);
  return parts.join(" · ");
}

// What the chosen team may ask for: the classes are switched, the largest gang is said beside the field.
function limit(limits) {
  const team = limits[form.elements.team.value], type = form.elements.gpu_type.value;
  const urgent = form.elements.priority.querySelector("option[value=P0]");
  urgent.disabled = !team?.p0;
  const most = type === "any" ? Math.max(0, ...Object.values(team?.most ?? {})) : team?.most[type];
  const hint = document.getElementById(`${form.elements.gpu_count.id}_helptext`);
  hint.dataset.words ??= hint.textContent;
  hint.textContent = most === undefined ? hint.dataset.words : `${hint.dataset.words} At most ${most.toLocaleString("en")} for this team.`;
}

if (form) {
  const words = form.querySelector("[data-asks]");
  const limits = JSON.parse(document.getElementById("limits").textContent);
  let verdict = "";
  const tell = () => { words.textContent = [asked(), verdict].filter(Boolean).join(" · "); };
  const changed = () => { tell(); limit(limits); outlook.soon(); };
  const text = new JobText(form, () => changed());
  const said = (found) => { verdict = found; tell(); };
  const outlook = new Outlook(form, { style: () => text.style(), written: (found) => text.write(found), said });
  form.addEventListener("input", changed);
  changed();
  form.addEventListener("submit", () => { form.querySelector(".send button").disabled = true; });
  addEventListener("pageshow", () => { form.querySelector(".send button").disabled = false; });
  document.getElementById("refused")?.focus();
}
