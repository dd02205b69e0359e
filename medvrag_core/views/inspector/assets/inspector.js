// The case inspector. One module, two hosts: a widget beside a kernel, and a page that is opened from the disk.
// A host is { load(address) -> record, image(address) -> url, place, onPlace(text) }; all else is the same for both.
// Every text of a page, a file or a model goes through textContent; nothing here makes markup out of text.

// --- elements and words -------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
// Controls that reorder or hide text are shown by their number, as the rest of the book does.
const INVISIBLE =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const visible = (text) =>
  String(text).replace(INVISIBLE, (c) => `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

function put(element, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return element;
}

function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag || "div");
  // Themes of books have classes called row, mark and body.
  if (classes.length) element.className = classes.map((one) => `mv-${one}`).join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : key === "value" ? value : visible(value));
  }
  return put(element, children);
}

function s(name, attributes = {}) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

const tag = (kind, ...text) => h(`span.tag${kind ? `.${kind}` : ""}`, {}, ...text);
const plural = (count, name) => `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`;
const seconds = (value) =>
  value >= 100 ? `${Math.round(value)} s` : value >= 1 ? `${value.toFixed(1)} s` : `${(1000 * value).toFixed(value < 0.01 ? 1 : 0)} ms`;
const number = (value) => value.toLocaleString("en");
const pageOf = (id) => (/^(.+#p[0-9]+)/.exec(id) ?? [id, id])[1];
const words = (text) => text.match(/\S+/g) ?? [];

// Words that stay, go and come, in order: the longest common run of words in order stays.
function changes(before, after) {
  const a = words(before).slice(0, 400), b = words(after).slice(0, 400);
  const same = (i, j) => a[i].toLowerCase() === b[j].toLowerCase();
  const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i][j] = same(i, j) ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const out = [];
  const add = (kind, word) => {
    if (out.at(-1)?.kind === kind) out.at(-1).words.push(word);
    else out.push({ kind, words: [word] });
  };
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && same(i, j)) { add("same", b[j]); i++; j++; }
    else if (i < a.length && (j >= b.length || best[i + 1][j] >= best[i][j + 1])) add("gone", a[i++]);
    else add("new", b[j++]);
  }
  return out;
}

// --- hosts --------------------------------------------------------------------------------

// Records are scripts beside the page, since browsers refuse to fetch from file://. A script hands over a JSON string,
// and says by its own element which address it was loaded for.
function fileHost(base, place) {
  const name = "medvragInspectorData";
  globalThis[name] ??= (text) => document.currentScript?.mvTake?.(text);
  return {
    place,
    onPlace(text) { history.replaceState(null, "", `#${text}`); },
    link: () => location.href,
    image: async (address) => base + address,
    load: (address) =>
      new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.mvTake = (text) => resolve(JSON.parse(text));
        script.onload = () => { script.remove(); reject(new Error(`${address}: holds no data`)); };
        script.onerror = () => { script.remove(); reject(new Error(`${address} is not beside this page`)); };
        script.src = `${base}${address}.js`;
        document.head.append(script);
      }),
  };
}

// Requests go over the widget's comm and are answered one by one; images come as bytes.
function widgetHost(model) {
  const waiting = new Map();
  let last = 0;
  const ask = (address) =>
    new Promise((resolve, reject) => {
      const id = ++last;
      waiting.set(id, { resolve, reject });
      model.send({ id, address });
    });
  const take = (answer, buffers) => {
    const one = waiting.get(answer.id);
    waiting.delete(answer.id);
    if (!one) return;
    if (answer.problem !== undefined) one.reject(new Error(answer.problem));
    else one.resolve(answer.record === undefined ? buffers[0] : JSON.parse(answer.record));
  };
  const urls = [];
  model.on("msg:custom", take);
  return {
    place: model.get("place"),
    onPlace(text) { model.set("place", text); model.save_changes(); },
    onAsked(go) { model.on("change:place", () => go(model.get("place"))); },
    load: ask,
    async image(address) {
      const url = URL.createObjectURL(new Blob([await ask(address)]));
      urls.push(url);
      return url;
    },
    close() { model.off("msg:custom", take); urls.forEach((url) => URL.revokeObjectURL(url)); },
  };
}

// --- the inspector ------------------------------------------------------------------------

const ROW = 56; // pixels; the list is windowed, so that thousands of cases cost as much as a screenful
const SHOWN_FIRST = 25;
let made = 0;

function inspector(root, host) {
  const uid = `mv${++made}`;
  const kept = new Map();
  const load = (address) => {
    if (!kept.has(address)) {
      const wanted = host.load(address);
      kept.set(address, wanted);
      wanted.catch(() => kept.delete(address));
      // A trace may be large: only the last cases stay in memory.
      if (kept.size > 60) for (const name of kept.keys()) if (/^(cases|maps|filters)/.test(name)) { kept.delete(name); break; }
    }
    return kept.get(address);
  };
  const pictures = new Map();
  const picture = (address) => {
    if (!pictures.has(address)) pictures.set(address, host.image(address));
    return pictures.get(address);
  };

  let catalog = null, arm = 0, beside = -1, rows = [], besideRows = null, found = [], chosen = -1, round = 1, said = "";
  let opening = 0, notice = "";

  // The frame: what is chosen above, the list at the left, the case at the right.
  const status = h("p.sr", { role: "status", "aria-live": "polite" });
  const label = (text, control) => {
    control.id = `${uid}-${control.name}`;
    return h(".pick", {}, h("label", { for: control.id }, text), control);
  };
  const select = (name, onchange) => h("select", { name, onchange });
  const attempt = (work) => work.catch((error) => detail.replaceChildren(fault(error)));
  const runPick = select("run", () => attempt(pickArm(catalog.arms.findIndex((one) => one.run === runPick.value))));
  const armPick = select("arm", () => attempt(pickArm(Number(armPick.value))));
  const besidePick = select("beside", () => attempt(pickBeside(Number(besidePick.value))));
  const search = h("input", { type: "search", name: "search", placeholder: "Search id or text", oninput: () => filter() });
  const pickOutcome = select("outcome", () => filter());
  const pickClass = select("class", () => filter());
  const pickRounds = select("rounds", () => filter());
  const pickSet = select("dataset", () => filter());
  const count = h("span.count", { "aria-live": "polite" });
  const list = h("ul.list", { role: "listbox", tabindex: 0, "aria-label": "Cases", onkeydown: listKey, onscroll: () => paintList() });
  const spacer = h("li.spacer", { role: "presentation", "aria-hidden": "true" });
  const detail = h("section.detail", { "aria-label": "Case", tabindex: -1 });
  const full = document.fullscreenEnabled
    ? h("button", { type: "button", onclick: () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen()) }, "Full screen")
    : null;
  const reset = h("button", { type: "button", onclick: () => clear() }, "Clear filters");
  const filters = h("details.filters", { open: true },
    h("summary", {}, "Filters and search"),
    h(".picks", {}, label("Search", search), label("Outcome", pickOutcome), label("Error class", pickClass),
      label("Rounds", pickRounds), label("Dataset", pickSet), reset));
  const side = h(".side", {}, filters, h(".listhead", {}, count, h("span.keys", { "aria-hidden": "true" }, "j k next, previous · / search")), list);
  const top = h(".top", {}, label("Run", runPick), label("Arm", armPick), label("Beside it", besidePick), full);
  const viewer = pageViewer(uid, load, picture, () => root.focus({ preventScroll: true }));
  root.classList.add("mv-inspector");
  root.tabIndex = -1;
  root.setAttribute("role", "region");
  root.setAttribute("aria-label", "Case inspector");
  root.dataset.lmSuppressShortcuts = "true"; // JupyterLab would take j and k for its own
  root.replaceChildren(top, h(".body", {}, side, detail), viewer.dialog, status);
  root.addEventListener("keydown", key);
  let known = null;
  const resized = new ResizeObserver(() => {
    const wide = root.clientWidth;
    if (!wide) return; // not in sight yet
    const narrow = wide < 760;
    if (known === null || narrow !== known) filters.open = wide >= 960;
    known = narrow;
    root.classList.toggle("mv-narrow", narrow);
    root.classList.toggle("mv-tight", wide < 1100);
    paintList();
  });
  resized.observe(root);

  const tell = (text) => { status.textContent = visible(text); };
  const fault = (error) => put(h("p.fault", { role: "alert" }), [`The cases cannot be shown: ${error.message}`]);

  function options(control, pairs, value) {
    control.replaceChildren(...pairs.map(([id, text]) => h("option", { value: id }, text)));
    if (value !== undefined) control.value = value;
  }

  async function start() {
    detail.replaceChildren(h("p.meta", {}, "Loading the cases …"));
    catalog = await load("catalog");
    options(runPick, [...new Set(catalog.arms.map((one) => one.run))].map((name) => [name, name]));
    await go(host.place || "");
    host.onAsked?.((text) => attempt(go(text)));
  }

  // A place is a query string: the same text is the link of a page and the trait of a widget.
  function placeText() {
    const row = rows[found[chosen]];
    const parts = { run: catalog.arms[arm].run, arm: catalog.arms[arm].arm };
    if (row) Object.assign(parts, { case: row.question_id, round });
    if (beside >= 0) parts.with = catalog.arms[beside].arm;
    return new URLSearchParams(parts).toString();
  }

  function keepPlace() {
    said = placeText();
    host.onPlace?.(said);
  }

  async function go(text) {
    if (text === said && said) return;
    const wanted = new URLSearchParams(text);
    const here = (name) => catalog.arms.findIndex((one) => one.arm === name && (!wanted.get("run") || one.run === wanted.get("run")));
    const first = wanted.get("run") ? catalog.arms.findIndex((one) => one.run === wanted.get("run")) : 0;
    await pickArm(Math.max(0, here(wanted.get("arm")) >= 0 ? here(wanted.get("arm")) : first), { open: false });
    if (wanted.get("with")) await pickBeside(here(wanted.get("with")), { open: false });
    const id = wanted.get("case"), placeOf = () => found.findIndex((k) => rows[k].question_id === id);
    // Filters that are set must not hide what a link asks for.
    if (id && placeOf() < 0) clear({ open: false });
    notice = id && placeOf() < 0 ? `There is no case ${id} in this arm; here is its first.` : "";
    await open(Math.max(0, placeOf()), Number(wanted.get("round")) || 1, { quiet: !text });
  }

  async function pickArm(next, { open: show = true } = {}) {
    const now = rows[found[chosen]]?.question_id;
    arm = next;
    const { run } = catalog.arms[arm];
    runPick.value = run;
    const mates = catalog.arms.map((one, k) => [k, one]).filter(([, one]) => one.run === run);
    const named = (one) => `${one.arm} (${one.right} of ${one.cases} right)`;
    options(armPick, mates.map(([k, one]) => [k, named(one)]), arm);
    if (beside === arm || (beside >= 0 && catalog.arms[beside].run !== run)) { beside = -1; besideRows = null; }
    options(besidePick, [[-1, "nothing"], ...mates.filter(([k]) => k !== arm).map(([k, one]) => [k, named(one)])], beside);
    armPick.title = visible(catalog.arms[arm].summary);
    let there = [], problem = null;
    try {
      there = (await load(`arms/${next}`)).rows;
    } catch (error) {
      problem = error;
    }
    if (arm !== next) return; // another one was picked meanwhile
    rows = there; // none where they cannot be read, lest those of another arm stand under this one's name
    const values = (of) => [...new Set(rows.map(of))].filter((value) => value !== "" && value !== null).sort((a, b) => (a > b ? 1 : -1));
    const keep = [pickOutcome.value, pickClass.value, pickRounds.value, pickSet.value];
    options(pickOutcome, [["", "all"], ["right", "right"], ["wrong", "wrong"], ...(rows.some((row) => row.correct === null) ? [["not scored", "not scored"]] : []),
      ...values((row) => row.outcome).filter((one) => one !== "answered").map((one) => [one, one])]);
    options(pickClass, [["", "all"], ...values((row) => row.error_class).map((one) => [one, catalog.error_labels[one] ?? one])]);
    options(pickRounds, [["", "all"], ...values((row) => row.rounds).map((one) => [one, plural(one, "round")])]);
    options(pickSet, [["", "all"], ...values((row) => row.dataset).map((one) => [one, one])]);
    [pickOutcome, pickClass, pickRounds, pickSet].forEach((control, k) => {
      control.value = [...control.options].some((one) => one.value === keep[k]) ? keep[k] : "";
    });
    pickSet.parentElement.hidden = pickSet.options.length < 2;
    filter({ open: false, keep: now });
    if (problem) throw problem;
    if (show) await open(Math.max(0, chosen), round);
  }

  async function pickBeside(next, { open: show = true } = {}) {
    beside = next;
    besidePick.value = beside;
    const there = beside < 0 ? null : (await load(`arms/${next}`)).rows;
    if (beside !== next) return;
    besideRows = there && new Map(there.map((row, k) => [row.question_id, [k, row]]));
    paintList(true);
    if (show) await open(chosen, round);
  }

  function clear(how) {
    for (const control of [search, pickOutcome, pickClass, pickRounds, pickSet]) control.value = "";
    filter(how);
  }

  function filter({ open: show = true, keep = rows[found[chosen]]?.question_id } = {}) {
    const parts = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = (row) => (row.outcome !== "answered" ? row.outcome : row.correct === null ? "not scored" : row.correct ? "right" : "wrong");
    const wanted = pickOutcome.value;
    found = [];
    rows.forEach((row, k) => {
      // What was not answered is wrong too.
      if (wanted && state(row) !== wanted && !(wanted === "wrong" && row.correct === false)) return;
      if (pickClass.value && row.error_class !== pickClass.value) return;
      if (pickRounds.value && String(row.rounds) !== pickRounds.value) return;
      if (pickSet.value && row.dataset !== pickSet.value) return;
      if (parts.length && !parts.every((part) => `${row.question_id} ${row.question}`.toLowerCase().includes(part))) return;
      found.push(k);
    });
    count.textContent = `${number(found.length)} of ${plural(rows.length, "case")}`;
    chosen = found.findIndex((k) => rows[k].question_id === keep);
    spacer.style.height = `${found.length * ROW}px`;
    list.replaceChildren(spacer);
    paintList(true);
    if (show && chosen < 0) open(0, 1);
  }

  // Only rows in sight exist; each stands at its place in a spacer as high as all of them.
  function paintList(anew = false) {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(found.length, Math.ceil((list.scrollTop + (list.clientHeight || 600)) / ROW) + 4);
    const there = new Map();
    for (const item of [...list.querySelectorAll("[role=option]")]) {
      const place = Number(item.dataset.place);
      if (anew || place < first || place >= last) item.remove();
      else there.set(place, item);
    }
    for (let place = first; place < last; place++) {
      const item = there.get(place) ?? listRow(place);
      item.setAttribute("aria-selected", place === chosen);
      if (!there.has(place)) list.append(item);
    }
    if (chosen >= first && chosen < last) list.setAttribute("aria-activedescendant", `${uid}-row-${chosen}`);
    else list.removeAttribute("aria-activedescendant");
  }

  const mark = (row) =>
    row.correct === null ? h("span.mark", { title: row.outcome }, "•")
      : row.correct ? h("span.mark.good", { role: "img", "aria-label": "right" }, "✓")
        : h("span.mark.bad", { role: "img", "aria-label": "wrong" }, row.outcome === "answered" ? "✗" : "!");

  function listRow(place) {
    const row = rows[found[place]];
    const other = besideRows?.get(row.question_id)?.[1];
    const item = h("li.row", {
      role: "option", id: `${uid}-row-${place}`, "data-place": place, "aria-setsize": found.length, "aria-posinset": place + 1,
      onclick: () => { open(place, 1); list.focus({ preventScroll: true }); },
    },
    h("span.marks", {}, mark(row), other && mark(other)),
    h("span.what", {}, h("span.text", {}, row.question),
      h("span.about", {}, `${row.question_id} · ${plural(row.rounds, "round")}`,
        row.error_class && ` · ${(catalog.error_labels[row.error_class] ?? row.error_class).split(":")[0]}`,
        row.outcome !== "answered" && !row.error_class && ` · ${row.outcome}`)));
    item.style.top = `${place * ROW}px`;
    return item;
  }

  function reveal(place) {
    const top_ = place * ROW;
    if (top_ < list.scrollTop) list.scrollTop = top_;
    else if (top_ + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top_ + ROW - list.clientHeight;
  }

  async function open(place, wantedRound = 1, { quiet = false } = {}) {
    if (!found.length) {
      opening++;
      detail.replaceChildren(h("p.meta", {}, "No case fits these filters."));
      return;
    }
    chosen = Math.min(Math.max(0, place), found.length - 1);
    reveal(chosen);
    paintList();
    const row = rows[found[chosen]], turn = ++opening;
    const other = besideRows?.get(row.question_id);
    try {
      const wanted = [load(`cases/${arm}-${found[chosen]}`)];
      if (other) wanted.push(load(`cases/${beside}-${other[0]}`));
      const [mine, theirs] = await Promise.all(wanted);
      if (turn !== opening) return; // another one was opened meanwhile
      round = Math.min(Math.max(1, wantedRound), Math.max(1, mine.trace.rounds.length));
      showCase(mine, theirs, beside >= 0 && !other);
      if (!quiet) keepPlace();
      tell(`Case ${row.question_id}, ${chosen + 1} of ${found.length}`);
    } catch (error) {
      if (turn === opening) detail.replaceChildren(fault(error));
    }
  }

  function showCase(mine, theirs, missing) {
    const step = (by, text, hint) => h("button", { type: "button", title: hint, disabled: !(chosen + by in found), onclick: () => open(chosen + by) }, text);
    const copied = (name, what) => h("button", {
      type: "button", onclick: async (event) => { event.currentTarget.textContent = (await copy(what())) ? "Copied" : "Could not copy"; },
    }, name);
    const heads = [mine, theirs].filter(Boolean);
    const question = mine.trace.question;
    detail.replaceChildren();
    put(detail, [
      h(".bar", {}, step(-1, "← Previous", "k"), step(1, "Next →", "j"), h("span.grow"),
        copied("Copy trace as JSON", () => JSON.stringify(heads.length > 1 ? heads.map((one) => one.trace) : mine.trace, null, 1)),
        host.link && copied("Copy link", () => `${host.link().split("#")[0]}#${placeText()}`)),
      notice && h("p.fault", { role: "alert" }, notice),
      h("p.meta", {}, [question.id, question.dataset, question.split, question.difficulty, question.evidence && `evidence: ${question.evidence}`,
        question.hops && `${plural(question.hops, "page")} needed`, question.unanswerable && "no option is right"].filter(Boolean).join(" · ")),
      h("h3.question", { dir: "auto" }, question.question),
      question.context && h("details", {}, h("summary", {}, "Given with the question"), h("p", { dir: "auto" }, question.context)),
      optionList(question, heads),
      missing && h("p.meta", {}, `${catalog.arms[beside].arm} did not answer this question.`),
      h(`.arms${heads.length > 1 ? ".two" : ""}`, {}, heads.map((one, k) => armView(one, k))),
    ]);
    notice = "";
    detail.scrollTop = 0;
  }

  function optionList(question, heads) {
    return h("ul.options", {}, Object.entries(question.options).map(([name, text]) => {
      const gold = name === question.answer;
      const by = heads.filter((one) => one.trace.label === name);
      const wrong = by.length > 0 && !gold && question.answer !== null;
      return h(`li${gold ? ".gold" : ""}${wrong ? ".wrong" : ""}`, { dir: "auto" }, h("b", {}, name), " ", text, " ",
        gold && tag("good", "gold"),
        by.map((one) => tag(gold ? "good" : wrong ? "bad" : "", heads.length > 1 ? `answered by ${one.trace.system}` : "answered")));
    }));
  }

  function armView(one, place) {
    const { trace } = one;
    const verdict = trace.outcome !== "answered" ? tag("bad", trace.outcome, trace.reason && ` (${trace.reason})`)
      : trace.correct === null ? tag("", `answered ${trace.label}`)
        : trace.correct ? tag("good", `right: ${trace.label}`) : tag("bad", `wrong: ${trace.label}, gold ${trace.question.answer}`);
    const replies = trace.rounds.flatMap((r) => [r.reply, r.refinement, ...(r.steps ?? []), ...r.filter.calls].filter(Boolean));
    const read = replies.reduce((sum, r) => sum + (r.prompt_tokens ?? 0), 0);
    const wrote = replies.reduce((sum, r) => sum + (r.completion_tokens ?? 0), 0);
    const tabs = h(".tabs", { role: "tablist", "aria-label": `Rounds of ${trace.system}` });
    const panel = h("div.round", { role: "tabpanel", id: `${uid}-panel-${place}`, tabindex: 0 });
    const buttons = trace.rounds.map((r) => h("button", {
      type: "button", role: "tab", id: `${uid}-tab-${place}-${r.number}`, "aria-controls": panel.id,
      onclick: () => { choose(r.number); round = r.number; keepPlace(); }, onkeydown: tabKey,
    }, `Round ${r.number}`, r.parsed.label !== null && h("span.tabnote", {}, `answers ${r.parsed.label}`)));
    const choose = (n) => {
      buttons.forEach((button, k) => {
        button.setAttribute("aria-selected", k + 1 === n);
        button.tabIndex = k + 1 === n ? 0 : -1;
      });
      panel.setAttribute("aria-labelledby", buttons[n - 1].id);
      panel.replaceChildren(...roundView(one, n - 1));
    };
    function tabKey(event) {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      const next = buttons[(buttons.indexOf(event.currentTarget) + by + buttons.length) % buttons.length];
      next.focus();
      next.click();
    }
    tabs.append(...buttons);
    if (buttons.length) choose(Math.min(round, buttons.length));
    return h("article.arm", { "aria-label": trace.system },
      h("h4", {}, trace.system, " ", verdict, " ", one.error_class && tag("bad", catalog.error_labels[one.error_class] ?? one.error_class)),
      h("p.meta", {}, [`profile ${trace.profile}`, plural(trace.rounds.length, "round"), trace.seconds ? seconds(trace.seconds) : "not timed",
        read || wrote ? `${number(read)} + ${number(wrote)} tokens` : "no tokens counted"].join(" · ")),
      goldTable(trace),
      buttons.length ? [tabs, panel] : h("p.meta", {}, "No round was finished."));
  }

  const rankIn = (ids, page) => {
    const place = ids.findIndex((id) => pageOf(id) === page);
    return place < 0 ? "–" : String(place + 1);
  };

  function table(heads, lines, caption) {
    return h(".scroll", { tabindex: 0, role: "group", "aria-label": caption }, h("table", {}, h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, lines.map((cells) => cells instanceof Node ? cells : h("tr", {}, cells.map((cell) => h("td", {}, cell)))))));
  }

  function goldTable(trace) {
    const gold = trace.question.gold_pages;
    if (!gold.length || !trace.rounds.length) return null;
    const lines = gold.flatMap((page) => trace.rounds.map((r) =>
      [page, r.number, rankIn(r.stage1.map((hit) => hit.page_id), page), rankIn(r.filter.kept, page), rankIn(r.shown, page)]));
    return h("details", {}, h("summary", {}, "Where the gold pages went"),
      table(["gold page", "round", "rank before the filter", "rank after it", "place shown"], lines, "Gold pages by round"));
  }

  // --- one round ----------------------------------------------------------------------------

  function roundView(one, k) {
    const { trace } = one, r = trace.rounds[k], before = trace.rounds[k - 1], after = trace.rounds[k + 1];
    return [
      h("h5", {}, "Query"),
      queryView(r, before),
      r.flags.length ? h("p", {}, r.flags.map((flag) => tag("bad", flag))) : null,
      h("h5", {}, `Pages shown (${r.shown.length})`),
      pagesView(one, k),
      r.summaries_shown.length ? h("details", {}, h("summary", {}, `Summaries shown besides (${r.summaries_shown.length})`), h("p.meta", {}, r.summaries_shown.join(", "))) : null,
      (r.written ?? []).length ? [h("h5", {}, "Documents written for this question"), r.written.map((item) =>
        h(".written", {}, h("p", {}, tag("", `written by ${item.written_by}`), " ", h("b", {}, item.evidence_id)), h("blockquote", { dir: "auto" }, item.text)))] : null,
      h("h5", {}, "Filter"),
      filterView(one, k),
      (r.steps ?? []).length ? h("details", {}, h("summary", {}, plural(r.steps.length, "step"), " beside the reader's"),
        h("ol.steps", {}, r.steps.map((step) => stepView(one, step)))) : null,
      h("h5", {}, "Reply"),
      replyView(one, r),
      h("h5", {}, "Memory bank"),
      r.history && h("details", {}, h("summary", {}, "Plain history in its place"), h("pre", { tabindex: 0, dir: "auto" }, r.history)),
      bankView(r.bank_before, after?.bank_before),
      h("h5", {}, "Time and tokens"),
      timesView(r),
    ].flat(2).filter(Boolean);
  }

  function queryView(r, before) {
    if (!before) return h("blockquote.query", { dir: "auto" }, r.query);
    const parts = changes(before.query, r.query);
    const some = parts.some((part) => part.kind !== "same");
    return h("div", {},
      h("blockquote.query", { dir: "auto" }, parts.flatMap((part, place) => {
        const text = part.words.join(" ");
        const node = part.kind === "same" ? h("span", {}, text) : h(part.kind === "new" ? "ins" : "del", {}, text);
        return place ? [" ", node] : [node];
      })),
      h("p.meta", {}, some ? "Marked: words that came and words that went since the round before." : "The same query as in the round before."));
  }

  function pagesView(one, k) {
    const r = one.trace.rounds[k];
    if (!r.shown.length) return h("p.meta", {}, "None: the reader got no page in this round.");
    const cards = new Map(one.cards.map((card) => [card.page_id, card]));
    const gold = new Set(one.trace.question.gold_pages);
    const before = new Map(r.stage1.map((hit) => [hit.page_id, hit]));
    const seen = new Map(r.reply.seen.map((page) => [page.page_id, page]));
    const pages = [...new Set(r.shown.map(pageOf))].map((id) => cards.get(id)).filter((card) => card?.image);
    return h("ol.pages", {}, r.shown.map((shown, place) => {
      const page = pageOf(shown), card = cards.get(page), hit = before.get(shown) ?? before.get(page), sent = seen.get(page);
      const after = r.filter.kept.indexOf(shown) + 1;
      const told = h("span.told", {}, h("b", {}, `${place + 1}. ${shown}`),
        hit && h("span", {}, after ? `rank ${hit.rank} → ${after}` : `rank ${hit.rank}`), hit && h("span", {}, `S = ${hit.score.toFixed(3)}`),
        sent && h("span", {}, sent.width ? `sent at ${sent.width} × ${sent.height}, ${number(sent.tokens)} tokens` : `sent as text, ${number(sent.tokens)} tokens`),
        gold.has(page) && tag("good", "gold page"));
      const look = h("span.look");
      if (card?.thumbnail) {
        const image = h("img", { alt: "Look at page", loading: "lazy", width: card.width, height: card.height });
        picture(card.thumbnail).then((url) => { image.src = url; }, () => look.replaceChildren("no image"));
        look.append(image);
      } else put(look, [card?.hidden ? `not shown: ${card.hidden}` : "no image"]);
      const body = [look, told];
      return h(`li${gold.has(page) ? ".is-gold" : ""}`, {}, card?.image
        ? h("button.page", { type: "button",
          onclick: () => viewer.show(pages, pages.indexOf(card), one.maps[k], r.query) }, body)
        : h("span.page", {}, body));
    }));
  }

  // What became of every candidate: kept at which place, or dropped by which call.
  function fates(r) {
    const kept = new Map(r.filter.kept.map((id, k) => [id, k + 1]));
    const shown = new Map(r.shown.map((id, k) => [id, k + 1]));
    const dropped = new Map();
    let maps = 0;
    for (const call of r.filter.calls) {
      const name = call.phase === "map" ? `map call ${++maps}` : "reduce";
      const stayed = new Set(call.kept);
      for (const id of call.shown) if (!stayed.has(id)) dropped.set(id, name);
    }
    return r.stage1.map((hit) => {
      const after = kept.get(hit.page_id) ?? 0, place = shown.get(hit.page_id) ?? 0;
      const what = place ? `shown, place ${place}` : after ? "kept, not shown"
        : dropped.has(hit.page_id) ? `dropped by ${dropped.get(hit.page_id)}` : r.filter.calls.length ? "reached no call" : "beyond what is kept";
      return { hit, after, place, what };
    });
  }

  function filterView(one, k) {
    const r = one.trace.rounds[k];
    if (!r.stage1.length) return h("p.meta", {}, "Nothing was searched in this round.");
    const all = fates(r), gold = new Set(one.trace.question.gold_pages);
    const sets = {
      all: all,
      kept: all.filter((one_) => one_.after),
      dropped: all.filter((one_) => !one_.after),
      moved: all.filter((one_) => one_.after).sort((a, b) => Math.abs(b.hit.rank - b.after) - Math.abs(a.hit.rank - a.after)),
    };
    const body = h("div");
    const draw = (name, most) => {
      const chosenSet = sets[name];
      const lines = chosenSet.slice(0, most).map(({ hit, after, what }) => h(`tr${gold.has(pageOf(hit.page_id)) ? ".is-gold" : ""}`, {},
        h("td.n", {}, hit.rank), h("td.n", {}, after || "–"), h("td.n", {}, after ? moved(hit.rank - after) : ""),
        h("th", { scope: "row" }, hit.page_id, gold.has(pageOf(hit.page_id)) && tag("good", "gold")), h("td.n", {}, hit.score.toFixed(3)), h("td", {}, what)));
      body.replaceChildren(table(["before", "after", "moved", "page", "score", "what became of it"], lines, "Candidates and the filter"));
      if (chosenSet.length > most) body.append(h("button", { type: "button", onclick: () => draw(name, most * 4) }, `Show more (${number(chosenSet.length - most)} left)`));
      if (!chosenSet.length) body.append(h("p.meta", {}, "None."));
    };
    const moved = (by) => (by > 0 ? h("span.good", {}, `▲ ${by}`) : by < 0 ? h("span.bad", {}, `▼ ${-by}`) : "=");
    const names = { all: "all candidates", kept: "kept", dropped: "dropped", moved: "kept, by how far they moved" };
    const which = h("select", { "aria-label": "Candidates listed", onchange: (event) => draw(event.currentTarget.value, SHOWN_FIRST) },
      Object.entries(names).map(([id, text]) => h("option", { value: id }, `${text} (${number(sets[id].length)})`)));
    const calls = r.filter.calls.map((call, place) => [place + 1, call.phase, call.shown.length, call.kept.length, call.dropped_ids, call.filled,
      call.fallback ? `yes${call.reason ? `, ${call.reason}` : ""}` : "no", call.prompt_tokens ? `${number(call.prompt_tokens)} + ${number(call.completion_tokens)}` : "–"]);
    const block = h("details", {}, h("summary", {}, `${plural(all.length, "candidate")}, ${number(sets.kept.length)} kept, ${number(sets.dropped.length)} dropped`),
      h("p", {}, which), body,
      calls.length ? [h("p.meta", {}, plural(calls.length, "filter call")), table(["call", "phase", "summaries", "kept", "ids not used", "places filled", "fell back", "tokens"], calls, "Filter calls")] : h("p.meta", {}, "No filter call: the first of stage 1 are kept."));
    if (one.filters && calls.length) block.append(exchangesView(one, r));
    block.addEventListener("toggle", () => { if (block.open && !body.firstChild) draw("all", SHOWN_FIRST); });
    return block;
  }

  // Prompts of the filter hold the summaries of all candidates: they are loaded when somebody wants to read them.
  function exchangesView(one, r) {
    const body = h("div"), block = h("details.exchanges", {}, h("summary", {}, "Prompts and replies of the filter"), body);
    const show = async () => {
      body.replaceChildren(h("p.meta", {}, "Loading …"));
      const { exchanges } = await load(one.filters);
      body.replaceChildren(...r.filter.calls.map((call, place) => {
        const found = exchanges.find((each) => each.prompt.call === call.call);
        const name = `Call ${place + 1}, ${call.phase}`;
        if (!found) return h("p.meta", {}, call.call ? `${name}: not in the call store.` : `${name}: no model was asked.`);
        return h("section", {}, h("p.meta", {}, h("b", {}, name), ` · ${found.prompt.model} · ${found.outcome}`),
          promptBlock(found.prompt), h("details", {}, h("summary", {}, `Reply of call ${place + 1} as written`), h("pre", { tabindex: 0, dir: "auto" }, found.reply)));
      }));
    };
    block.addEventListener("toggle", () => {
      if (block.open && !body.firstChild) show().catch((error) => body.replaceChildren(h("p.fault", { role: "alert" }, error.message)));
    });
    return block;
  }

  function promptView(one, call) {
    if (!call) return h("p.meta", {}, "No prompt: what replied here is no language model.");
    const stored = one.prompts.find((prompt) => prompt.call === call);
    if (!stored) return h("p.meta", {}, `The prompt of call ${call.slice(0, 12)} is not in the call store.`);
    return promptBlock(stored);
  }

  function promptBlock(stored) {
    return h("details", {}, h("summary", {}, `Prompt as sent to ${stored.model} (${plural(stored.messages.length, "message")})`),
      stored.messages.map((message) => [h("p.meta", {}, h("b", {}, message.role), message.images ? `, ${plural(message.images, "image")}` : ""),
        h("pre", { tabindex: 0, dir: "auto" }, message.text)]));
  }

  function rawView(title, reply) {
    return h("details", {}, h("summary", {}, title),
      h("p.meta", {}, [reply.model, reply.prompt_tokens || reply.completion_tokens ? `${number(reply.prompt_tokens)} + ${number(reply.completion_tokens)} tokens` : "no tokens counted",
        `finish ${reply.finish_reason}`, reply.attempts > 1 && plural(reply.attempts, "try").replace("trys", "tries")].filter(Boolean).join(" · "),
      reply.flags.map((flag) => tag("bad", flag))),
      h("pre", { tabindex: 0, dir: "auto" }, reply.text));
  }

  function replyView(one, r) {
    const { parsed } = r;
    const result = parsed.label !== null ? [tag("good", "answer"), " ", h("b", {}, parsed.label)]
      : parsed.query_update !== null ? [tag("", "asks again"), " ", h("b", { dir: "auto" }, parsed.query_update)]
        : [tag("bad", "not readable"), ` ${parsed.reason || "no reason stored"}`];
    const scores = Object.entries(r.reply.option_scores ?? {});
    return h("div", {},
      h("p", {}, "Parsed: ", result),
      parsed.notes && h("p", { dir: "auto" }, parsed.notes),
      parsed.findings.length ? h("ul.plain", {}, parsed.findings.map((text) => h("li", { dir: "auto" }, text))) : null,
      scores.length ? h("ul.scores", { "aria-label": "Share of each option" }, scores.map(([name, share]) =>
        h("li", {}, h("b", {}, name), bar(share, 160), h("span", {}, `${(100 * share).toFixed(1)} %`)))) : null,
      rawView("Reply as written", r.reply), promptView(one, r.reply.call),
      r.refinement && [rawView("Query written by a call of its own", r.refinement), promptView(one, r.refinement.call)]);
  }

  function stepView(one, step) {
    return h("li", {}, h("b", {}, catalog.step_labels[step.kind] ?? step.kind), " ", step.about, step.reason && tag("bad", step.reason),
      h("span.meta", {}, ` ${step.made_by}${step.prompt_tokens ? ` · ${number(step.prompt_tokens)} + ${number(step.completion_tokens)} tokens` : ""}`),
      step.names.length ? h("p", { dir: "auto" }, step.names.join(", ")) : null, step.text && h("blockquote", { dir: "auto" }, step.text),
      step.call && promptView(one, step.call));
  }

  function bankView(before, after) {
    const now = after ?? before;
    const part = (name, old, fresh) => {
      const had = new Set(old), has = new Set(fresh);
      const gone = old.filter((text) => !has.has(text)).map((text) => h("li.gone", { dir: "auto" }, h("del", {}, text)));
      const there = fresh.map((text) => had.has(text) ? h("li", { dir: "auto" }, text) : h("li.new", { dir: "auto" }, h("ins", {}, text)));
      return [h("p.meta", {}, name), gone.length + there.length ? h("ul.diff", {}, gone, there) : h("p.meta", {}, "empty")];
    };
    return h(".bank", {},
      h("p.meta", {}, after ? `Iteration ${before.iteration} → ${after.iteration}; what this round wrote is marked.` : `Iteration ${before.iteration}. The last round writes nothing back.`),
      part("Key findings", before.key_findings, now.key_findings), part("Reasoning history", before.reasoning_history, now.reasoning_history));
  }

  function bar(share, width) {
    const element = h("span.meter", { "aria-hidden": "true" });
    element.style.width = `${Math.max(1, Math.round(width * Math.min(1, Math.max(0, share))))}px`;
    return element;
  }

  function timesView(r) {
    const longest = Math.max(...r.times.map((one) => one.seconds), 1e-9);
    const lines = r.times.map((one) => [one.step, seconds(one.seconds), bar(one.seconds / longest, 120)]);
    const { prompt_tokens: read, completion_tokens: wrote } = r.reply;
    return h("div", {}, lines.length ? table(["step", "time", ""], lines, "Time of each step") : h("p.meta", {}, "Not timed."),
      h("p.meta", {}, read || wrote ? `Reader: ${number(read)} tokens read, ${number(wrote)} written` : "The reader counts no tokens."));
  }

  // --- keys -----------------------------------------------------------------------------------

  function listKey(event) {
    const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const to = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, Home: 0, End: found.length - 1, PageDown: chosen + page, PageUp: chosen - page }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    open(to);
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || viewer.dialog.open || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const act = {
      j: () => open(chosen + 1), k: () => open(chosen - 1),
      "/": () => { filters.open = true; search.focus(); },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  attempt(start());
  return { go: (text) => { if (catalog) attempt(go(text)); else host.place = text; }, close() { resized.disconnect(); host.close?.(); } };
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages from the disk may lack the clipboard; a selection can be copied all the same.
    const area = h("textarea", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

// --- looking closely at a page ----------------------------------------------------------------

function pageViewer(uid, load, picture, onClose) {
  const image = h("img", { alt: "" });
  const patches = s("svg", { viewBox: "0 0 10000 10000", preserveAspectRatio: "none", class: "mv-patches", "aria-hidden": "true" });
  const boxes = s("svg", { viewBox: "0 0 10000 10000", preserveAspectRatio: "none", class: "mv-words", "aria-hidden": "true" });
  const sheet = h(".sheet", {}, image, patches, boxes);
  const area = h(".area", { tabindex: 0, role: "group", "aria-label": "Page; arrow keys scroll, plus and minus zoom" }, sheet);
  const title = h("h4", { id: `${uid}-viewer` });
  const note = h("p.note", { "aria-live": "polite" });
  const credit = h("p.meta");
  const pointed = h("p.meta.pointed");
  const opacity = h("input", { type: "range", min: 0, max: 100, value: 65, oninput: () => { patches.style.opacity = opacity.value / 100; } });
  const withWords = h("input", { type: "checkbox", onchange: () => { boxes.style.display = withWords.checked ? "" : "none"; } });
  const maps = h("fieldset.maps", {});
  const scale = h("span.scale", { "aria-live": "polite" });
  const button = (text, hint, onclick) => h("button", { type: "button", title: hint, "aria-label": hint, onclick }, text);
  const dialog = h("dialog.viewer", { "aria-labelledby": `${uid}-viewer`, onkeydown: key, onclose: onClose },
    h(".bar", {}, title, h("span.grow"), button("←", "Page before", () => turn(-1)), button("→", "Page after", () => turn(1)),
      button("−", "Smaller", () => zoom(1 / 1.25)), scale, button("+", "Larger", () => zoom(1.25)),
      button("Fit", "Fit the width", fit), button("1:1", "1:1, native resolution", () => setWidth(image.naturalWidth)), button("Close", "Close", () => dialog.close())),
    h(".split", {}, area, h(".panel", {}, h("label.check", {}, withWords, "Boxes of words"), h("label.slide", {}, "Opacity of the heatmap", opacity), maps, note, pointed, credit)));
  let pages = [], place = 0, address = "", query = "", wanted = 0, shading = 1, width = 0, fitted = true;
  let sheetRecord = null, shown = null;

  function setWidth(next, isFit = false) {
    if (!next) return;
    fitted = isFit;
    const middle = [(area.scrollLeft + area.clientWidth / 2) / (width || 1), (area.scrollTop + area.clientHeight / 2) / (width || 1)];
    width = Math.min(Math.max(80, next), 12000);
    sheet.style.width = `${width}px`;
    area.scrollLeft = middle[0] * width - area.clientWidth / 2;
    if (!isFit) area.scrollTop = middle[1] * width - area.clientHeight / 2;
    scale.textContent = image.naturalWidth ? `${Math.round((100 * width) / pages[place].width)} %` : "";
  }
  const zoom = (by) => setWidth(width * by);
  function fit() { setWidth(area.clientWidth - 4, true); }
  const turn = (by) => { if (pages[place + by]) look(place + by); };

  async function look(next) {
    place = next;
    const card = pages[place], turnNow = ++wanted;
    title.textContent = visible(`${card.page_id} (${place + 1} of ${pages.length})`);
    credit.textContent = visible(`${card.credit}${card.restricted ? ` Not for a published book: ${card.restricted}.` : ""}`) + (card.image_width < card.width ? ` Shown here at ${card.image_width} of ${card.width} pixels in width.` : "");
    image.alt = visible(`Page ${card.page_id}${card.title ? ` of ${card.title}` : ""}; its words can be laid over it as boxes`);
    sheet.style.aspectRatio = `${card.width} / ${card.height}`;
    image.removeAttribute("src");
    patches.replaceChildren();
    boxes.replaceChildren();
    note.textContent = pointed.textContent = "";
    sheetRecord = shown = null;
    picture(card.image).then((url) => { if (turnNow === wanted) image.src = url; }, (error) => { note.textContent = visible(error.message); });
    try {
      const [words_, maps_] = await Promise.all([load(card.sheet), address ? load(address) : null]);
      if (turnNow !== wanted) return;
      sheetRecord = words_;
      shown = maps_?.pages.find((one) => one.page_id === card.page_id) ?? null;
      drawWords();
      drawMaps(maps_);
    } catch (error) {
      if (turnNow === wanted) note.textContent = visible(error.message);
    }
  }
  image.addEventListener("load", () => { if (fitted) fit(); else setWidth(width); });

  const rect = (numbers, k, attributes) => s("rect", { x: numbers[4 * k], y: numbers[4 * k + 1],
    width: Math.max(0, numbers[4 * k + 2] - numbers[4 * k]), height: Math.max(0, numbers[4 * k + 3] - numbers[4 * k + 1]), ...attributes });

  function drawWords() {
    boxes.replaceChildren(...sheetRecord.words.map((_, k) => rect(sheetRecord.word_boxes, k, { "data-word": k })));
    boxes.style.display = withWords.checked ? "" : "none";
  }

  function drawMaps(maps_) {
    const legend = h("legend", {}, "Heatmap");
    if (!shown) {
      maps.replaceChildren(legend, h("p.meta", {}, maps_?.problem ? `No heatmap: ${maps_.problem}` : "No heatmap for this page."));
      return;
    }
    const names = ["none", ...shown.shadings.map((one) => one.name)];
    const heads = ["", "Whole query: the score S", "Whole query: whatever fits best"];
    shading = Math.min(shading, names.length - 1);
    maps.replaceChildren(legend, ...names.map((name, k) => h("label.map", {},
      h("input", { type: "radio", name: `${uid}-map`, value: k, ...(k === shading ? { checked: true } : {}), onchange: () => { shading = k; shade(); } }),
      h("span", {}, k === 0 ? "None" : heads[k] || name), k > 2 && h("span.share", {}, shown.shadings[k - 1].share))));
    maps.append(h("p.meta", {}, `Query: ${query}`), h("p.meta", {}, `Similarity by the page encoder of the run (${maps_.encoder}), whatever the arm searched with. Percent: share of the score.`));
    shade();
  }

  function shade() {
    const one = shading ? shown.shadings[shading - 1] : null;
    patches.replaceChildren();
    patches.style.opacity = opacity.value / 100;
    note.textContent = "";
    if (!one) return;
    const best = new Set(one.best);
    // Weak ones first, so that the strongest are on top where boxes overlap.
    const order = [...one.levels].map((digit, k) => [parseInt(digit, 16), k]).sort((a, b) => a[0] - b[0]);
    for (const [level, k] of order)
      if (level || best.has(k)) patches.append(rect(sheetRecord.patch_boxes, k, { "fill-opacity": (level / 15).toFixed(2), ...(best.has(k) ? { class: "mv-best" } : {}) }));
    const told = one.note || `Similarity of each patch with “${one.name}”; outlined: the best, ${best.size === 1 ? `patch ${one.best[0] + 1}` : `${best.size} patches that share a vector`}.`;
    note.textContent = visible(`${told} From ${one.clear.toFixed(3)} (clear) to ${one.full.toFixed(3)} (full).`);
  }

  // Words and patches under the pointer are named in a line of text, for people who cannot tell boxes apart.
  sheet.addEventListener("pointermove", (event) => {
    if (drag) { area.scrollLeft = drag.left - (event.clientX - drag.x); area.scrollTop = drag.top - (event.clientY - drag.y); return; }
    if (!sheetRecord) return;
    const frame = sheet.getBoundingClientRect();
    const x = (10000 * (event.clientX - frame.left)) / frame.width, y = (10000 * (event.clientY - frame.top)) / frame.height;
    const inside = (numbers, k) => x >= numbers[4 * k] && x <= numbers[4 * k + 2] && y >= numbers[4 * k + 1] && y <= numbers[4 * k + 3];
    const word = sheetRecord.words.findIndex((_, k) => inside(sheetRecord.word_boxes, k));
    const one = shading && shown ? shown.shadings[shading - 1] : null;
    const patch = one ? [...one.levels].findIndex((_, k) => inside(sheetRecord.patch_boxes, k)) : -1;
    const level = patch < 0 ? 0 : parseInt(one.levels[patch], 16) / 15;
    pointed.textContent = visible([word >= 0 && `word “${sheetRecord.words[word]}”`,
      patch >= 0 && `patch ${patch + 1}, ${level ? "about" : "at most"} ${(one.clear + level * (one.full - one.clear)).toFixed(3)}`].filter(Boolean).join(" · "));
  });
  let drag = null;
  sheet.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button) return; // touch scrolls by itself
    drag = { x: event.clientX, y: event.clientY, left: area.scrollLeft, top: area.scrollTop };
    sheet.setPointerCapture(event.pointerId);
  });
  for (const end of ["pointerup", "pointercancel"]) sheet.addEventListener(end, () => { drag = null; });
  area.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
  }, { passive: false });

  function key(event) {
    event.stopPropagation();
    if (event.target.tagName === "INPUT") return;
    const act = { "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(1 / 1.25), 0: fit, n: () => turn(1), p: () => turn(-1) }[event.key];
    if (act) { event.preventDefault(); act(); }
  }

  return {
    dialog,
    show(cards, at, mapsAddress, text) {
      pages = cards; address = mapsAddress; query = text; fitted = true;
      dialog.showModal();
      area.focus();
      look(at);
    },
  };
}

// --- the two hosts ----------------------------------------------------------------------------

// Other links of a page have names after the hash too; a place names an arm or a case.
const placeIn = (hash) => (/[#&](?:arm|case)=/.test(hash) ? hash.slice(1) : "");

function mountAll() {
  for (const spot of document.querySelectorAll(".mv-inspector-mount:not([data-mounted])")) {
    spot.dataset.mounted = "yes";
    const root = document.createElement("div");
    spot.replaceChildren(root);
    const view = inspector(root, fileHost(spot.dataset.base, placeIn(location.hash) || spot.dataset.place || ""));
    // The address that was asked for, not the present one: a case that came meanwhile may have written its own there.
    window.addEventListener("hashchange", (event) => {
      const place = placeIn(new URL(event.newURL).hash);
      if (place) view.go(place);
    });
  }
}

export default {
  render({ model, el }) {
    const root = document.createElement("div");
    el.append(root);
    const view = inspector(root, widgetHost(model));
    return () => view.close();
  },
  mountAll,
};
