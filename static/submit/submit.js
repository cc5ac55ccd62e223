// Says in whole hosts, cores and GB what is being asked for, while one types; leads to the first error; sends once.

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

if (form) {
  const words = form.querySelector("[data-asks]");
  const tell = () => { words.textContent = asked(); };
  form.addEventListener("input", tell);
  tell();
  form.addEventListener("submit", () => { form.querySelector(".send button").disabled = true; });
  addEventListener("pageshow", () => { form.querySelector(".send button").disabled = false; });
  document.getElementById("refused")?.focus();
}
