"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const read = (id) => (byId(id) ? JSON.parse(byId(id).textContent) : null);
  const data = read("data");
  const files = read("files");

  // Only textContent and attributes are ever set: no text from outside becomes markup.
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const copyButton = (text) => make("button", { type: "button", class: "copy", "data-copy": text }, "Copy");
  const line = (name, text, copied) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, ...(copied ? [make("code", {}, text), " ", copyButton(text)] : [text])));

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // A page that was opened from a file may not have the clipboard; selecting still lets people copy.
      const area = make("textarea");
      area.value = text;
      button.after(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  });

  // Sorting: numbers by their value, unknown ones last in both directions.
  const key = (cell) => {
    const value = cell.dataset.v ?? cell.textContent;
    return value.trim() !== "" && isFinite(value) ? Number(value) : value;
  };
  const compare = (first, second) =>
    typeof first === "number" && typeof second === "number"
      ? first - second
      : String(first).localeCompare(String(second), "en", { numeric: true });
  const unknown = (value) => value === "" || value === "—";
  const direction = (heading) => {
    const next = heading.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
    for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", next);
    return next === "ascending" ? 1 : -1;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    table.tHead.addEventListener("click", (event) => {
      const heading = event.target.closest("th");
      if (!heading || !event.target.closest("button.sort")) return;
      const sign = direction(heading);
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [key(row.cells[heading.cellIndex]), row]);
      rows.sort(([a], [b]) => (unknown(a) || unknown(b) ? unknown(a) - unknown(b) : sign * compare(a, b)));
      body.append(...rows.map(([, row]) => row));
    });
  }

  // Filtering: by the text of a row's heading cells, and by what the row is marked with.
  const filter = (name) => {
    const table = byId(name);
    const input = document.querySelector(`input[data-filter="${name}"]`);
    const only = document.querySelector(`select[data-only="${name}"]`);
    const wanted = (input ? input.value : "").toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const fits = row.textContent.toLowerCase().includes(wanted) && (!only || !only.value || row.classList.contains(only.value));
      row.hidden = !fits;
      shown += fits;
    }
    document.querySelector(`[data-count="${name}"]`).textContent = `${shown} of ${table.tBodies[0].rows.length} shown`;
  };
  for (const input of document.querySelectorAll("[data-filter], [data-only]"))
    input.addEventListener("input", () => filter(input.dataset.filter ?? input.dataset.only));

  if (!data) return;

  // A try is an array; these are its places, as core/report_html/tries.py writes them.
  const [LEDGER, TASK, VARIANT, REPETITION, TRY, RETAINED, OUTCOME, REWARD, AGENT, TOTAL, INPUT, OUTPUT, RUN, POD, DIGEST, REASON, FLAGS] = Array(17).keys();
  const number = (value) => (value === null ? "—" : value.toLocaleString("en"));
  const address = (one) => {
    const base = data.evidence[one[RUN]];
    if (!base || !one[POD]) return "";
    const path = [data.ledgers[one[LEDGER]][1], data.tasks[one[TASK]][1], data.variants[one[VARIANT]][1]];
    return `${base}attempts/${path.join("/")}/r${one[REPETITION]}/try-${one[TRY]}/${one[POD]}/`;
  };
  const dialog = byId("evidence");
  const body = byId("evidence-body");
  byId("evidence-close").addEventListener("click", () => dialog.close());

  const tryDetails = (one) => {
    const where = address(one);
    const list = make("dl", {},
      line("Outcome", data.outcomes[one[OUTCOME]] + (one[RETAINED] ? ", counts" : ", replaced: does not count")),
      line("Reward", number(one[REWARD])),
      line("Agent, total seconds", `${number(one[AGENT])}, ${number(one[TOTAL])}`),
      line("Tokens in, out", `${number(one[INPUT])}, ${number(one[OUTPUT])}`));
    if (data.reasons[one[REASON]]) list.append(line("Why", data.reasons[one[REASON]]));
    if (one[FLAGS].length) list.append(line("Flags", one[FLAGS].join(", ")));
    if (one[DIGEST]) list.append(line("Digest of manifest.json", `sha256:${one[DIGEST]}`, true));
    if (where) {
      list.append(line("Evidence", where, true));
      if (one[DIGEST]) {
        list.append(line("Check it", `aws s3 cp ${where}manifest.json - | sha256sum`, true));
        list.append(line("Read it", `assay report attempt ${where} -o attempt.html`, true));
      }
    } else if (!one[DIGEST]) {
      list.append(line("Evidence", "none is recorded"));
    }
    return [make("h3", {}, `Repetition ${one[REPETITION]}, try ${one[TRY]}`), list];
  };
  const openTries = (title, rows) => {
    byId("evidence-title").textContent = title;
    body.replaceChildren(...rows.flatMap((row) => tryDetails(data.tries[row])));
    dialog.showModal();
  };

  const rowOf = (pointer) => {
    const [, part, place] = pointer.split("/");
    return part === "vector" ? files.vector[place] : part === "index" ? { variant: files.index[place] } : null;
  };
  const openNumber = (button) => {
    const pointer = button.dataset.p;
    const row = rowOf(pointer);
    byId("evidence-title").textContent = `Where ${button.textContent} comes from`;
    const list = make("dl", {},
      line("File", files.report.address, true), line("Its digest", files.report.digest, true),
      line("Place in it", pointer, true));
    const note = button.parentElement.title;
    if (note) list.append(line("Note", note));
    for (const one of files.attempts) {
      list.append(line("Computed from", one.address, true), line("Its digest", one.digest, true));
    }
    body.replaceChildren(list);
    if (row && data.tries.length) {
      const count = data.tries.filter((one) => data.variants[one[VARIANT]][0] === row.variant && (!row.ledger || data.ledgers[one[LEDGER]][0] === row.ledger)).length;
      const show = make("button", { type: "button" }, `Show its ${number(count)} tries`);
      show.addEventListener("click", () => {
        dialog.close();
        byId("tries-variant").value = row.variant;
        byId("tries-ledger").value = row.ledger ?? "";
        page = 0;
        showTries();
        byId("tries").scrollIntoView();
      });
      body.append(make("p", {}, show));
    }
    dialog.showModal();
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.n");
    if (!button) return;
    if (button.dataset.t) {
      const rows = button.dataset.t.split(",").map(Number);
      const first = data.tries[rows[0]];
      openTries(`${data.tasks[first[TASK]][0]}, ${data.variants[first[VARIANT]][0]}`, rows);
    } else if (button.dataset.p) openNumber(button);
  });

  // The list of all tries: a page of rows at a time, so that ten thousand open as fast as ten.
  const table = byId("tries-table");
  if (!table) return;
  const PAGE = 50;
  const columns = [
    ["Task", (one) => data.tasks[one[TASK]][0]], ["Variant", (one) => data.variants[one[VARIANT]][0]],
    ["Ledger", (one) => data.ledgers[one[LEDGER]][0]], ["Repetition", (one) => one[REPETITION], true],
    ["Try", (one) => one[TRY], true], ["Outcome", (one) => data.outcomes[one[OUTCOME]]],
    ["Counts", (one) => (one[RETAINED] ? "yes" : "no")], ["Reward", (one) => one[REWARD], true],
    ["Agent s", (one) => one[AGENT], true], ["Total s", (one) => one[TOTAL], true],
    ["Evidence", (one) => one[DIGEST]],
  ];
  let order = data.tries.map((_, place) => place);
  let page = 0;
  const heading = make("tr");
  for (const [title, value, numeric] of columns) {
    const cell = make("th", { scope: "col", ...(numeric ? { class: "num" } : {}) }, make("button", { type: "button", class: "sort" }, title));
    cell.firstChild.addEventListener("click", () => {
      const sign = direction(cell);
      const keys = order.map((place) => [value(data.tries[place]), place]);
      keys.sort(([a], [b]) => ((a ?? "") === "" || (b ?? "") === "" ? ((a ?? "") === "") - ((b ?? "") === "") : sign * compare(a, b)));
      order = keys.map(([, place]) => place);
      page = 0;
      showTries();
    });
    heading.append(cell);
  }
  table.tHead.append(heading);
  const fill = (id, names) => byId(id).append(...names.map((name) => make("option", { value: name }, name)));
  fill("tries-variant", data.variants.map(([name]) => name));
  fill("tries-ledger", data.ledgers.map(([name]) => name));
  fill("tries-outcome", data.outcomes);

  const showTries = () => {
    const task = byId("tries-task").value.toLowerCase();
    const [variant, ledger, outcome] = ["variant", "ledger", "outcome"].map((name) => byId(`tries-${name}`).value);
    const retained = byId("tries-retained").checked;
    const found = order.filter((place) => {
      const one = data.tries[place];
      return data.tasks[one[TASK]][0].toLowerCase().includes(task)
        && (!variant || data.variants[one[VARIANT]][0] === variant)
        && (!ledger || data.ledgers[one[LEDGER]][0] === ledger)
        && (!outcome || data.outcomes[one[OUTCOME]] === outcome)
        && (!retained || one[RETAINED]);
    });
    const shown = found.slice(page * PAGE, (page + 1) * PAGE);
    table.tBodies[0].replaceChildren(...shown.map((place) => {
      const one = data.tries[place];
      const row = make("tr");
      columns.slice(0, -1).forEach(([, value, numeric], at) => {
        const text = value(one);
        row.append(make(at ? "td" : "th", { ...(at ? {} : { scope: "row" }), ...(numeric ? { class: "num" } : {}) },
          typeof text === "number" || text === null ? number(text) : text));
      });
      const open = make("button", { type: "button", class: "n", "data-t": place, "aria-label": `Evidence of ${data.tasks[one[TASK]][0]}, ${data.variants[one[VARIANT]][0]}, repetition ${one[REPETITION]}, try ${one[TRY]}` },
        make("code", {}, one[DIGEST] ? `${one[DIGEST].slice(0, 12)}…` : "none"));
      row.append(make("td", {}, open));
      return row;
    }));
    const from = found.length ? page * PAGE + 1 : 0;
    byId("tries-count").textContent = `${number(from)} to ${number(page * PAGE + shown.length)} of ${number(found.length)}`;
    byId("tries-back").disabled = page === 0;
    byId("tries-more").disabled = (page + 1) * PAGE >= found.length;
  };
  byId("tries-filter").addEventListener("input", () => { page = 0; showTries(); });
  byId("tries-back").addEventListener("click", () => { page -= 1; showTries(); });
  byId("tries-more").addEventListener("click", () => { page += 1; showTries(); });
  showTries();
})();
