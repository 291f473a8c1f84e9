'use strict';
// What went wrong stands in the page itself, where a test can read it.
const root = document.documentElement;
window.addEventListener('error', event => root.setAttribute('data-error', event.message));

const report = JSON.parse(document.getElementById('data').textContent);
const variants = report.variants;
const MIB = 1024 * 1024;

// --- small tools ---------------------------------------------------------------------------------------------------

const SVG = 'http://www.w3.org/2000/svg';
function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
}
function html(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const key in attributes || {}) made.setAttribute(key, attributes[key]);
  for (const child of children) made.append(child);
  return made;
}
const count = value => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ' ');
const short = value => value === 0 ? '0' : value.toExponential(1);
const largest = list => list.reduce((most, value) => Math.max(most, value), 0);
const sum = list => list.reduce((total, value) => total + value, 0);
const color = index => `var(--c${index})`;
const phaseColor = phase => `var(--p-${phase.replace(/ /g, '-')}, var(--soft))`;
const PHASES = ['data', 'to', 'scatter', 'replicate', 'buffers', 'forward', 'gather', 'loss', 'gather backward', 'backward', 'reduce', 'communication', 'step', 'iteration', 'idle'];
const PHASE_NAMES = { step: 'optimizer', iteration: 'other', idle: 'waiting for others', communication: 'waiting for all-reduce', to: 'batch to the device' };
const phaseName = phase => PHASE_NAMES[phase] || phase;

// Numbers at which an axis up to `most` is labelled.
function ticks(most, wanted) {
  const rough = most / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(value => value >= rough);
  const list = [];
  for (let value = 0; value <= most * 1.0001; value += step) list.push(value);
  return list;
}

function picture(width, height, label) {
  return element('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label });
}
function legend(entries) {
  const list = html('ul', { class: 'legend' });
  for (const [name, fill] of entries) list.append(html('li', {}, html('i', { style: `background:${fill}` }), name));
  return list;
}
// Text that fits in so many pixels, or nothing.
const fits = (text, pixels) => text.length * 6.3 + 6 <= pixels ? text : '';

function table(columns, rows, stacked) {
  const head = html('tr'), body = html('tbody');
  for (const column of columns) head.append(html('th', { scope: 'col', class: column.number ? 'n' : '' }, column.name));
  for (const row of rows) {
    const line = html('tr');
    row.forEach((cell, i) => {
      const made = i === 0 && stacked ? html('th', { scope: 'row' }) : html('td', { class: columns[i].number ? 'n' : '', 'data-label': columns[i].name });
      made.append(cell);
      line.append(made);
    });
    body.append(line);
  }
  return html('div', { class: 'scroll' }, html('table', stacked ? { class: 'stack' } : {}, html('thead', {}, head), body));
}
function show_table(name, columns, rows) {
  document.querySelector(`[data-table="${name}"]`).append(html('details', {}, html('summary', {}, 'The same as a table'), table(columns, rows)));
}
const column = name => ({ name }), numbers = name => ({ name, number: true });

// --- charts --------------------------------------------------------------------------------------------------------

// Lines over the steps, the y axis logarithmic.
function line_chart(width, series, limit, label) {
  const floor = 1e-9, left = 58, right = 10, top = 28, bottom = 40, height = Math.min(300, Math.max(220, width * 0.45));
  const steps = largest(series.map(line => line.values.length));
  const ceiling = 10 ** Math.ceil(Math.log10(Math.max(limit || floor, ...series.map(line => largest(line.values)), 1e-7)));
  const x = step => left + (width - left - right) * (steps === 1 ? 0.5 : (step - 1) / (steps - 1));
  const y = value => top + (height - top - bottom) * Math.log10(ceiling / Math.max(value, floor)) / Math.log10(ceiling / floor);
  const svg = picture(width, height, label);
  for (let power = Math.log10(floor); power <= Math.log10(ceiling) + 0.01; ++power) {
    const at = y(10 ** power);
    svg.append(element('line', { x1: left, x2: width - right, y1: at, y2: at, class: 'grid' }));
    svg.append(element('text', { x: left - 8, y: at + 4, 'text-anchor': 'end', class: 'soft' }, power === -9 ? '≤ 1e-9' : `1e${power}`));
  }
  for (const step of ticks(steps, width < 500 ? 4 : 10).map(Math.round)) {
    if (step >= 1) svg.append(element('text', { x: x(step), y: height - bottom + 18, 'text-anchor': 'middle', class: 'soft' }, step));
  }
  svg.append(element('text', { x: 0, y: 12, class: 'soft' }, 'largest difference from one device, logarithmic'));
  svg.append(element('text', { x: (left + width - right) / 2, y: height - 4, 'text-anchor': 'middle', class: 'soft' }, 'step'));
  if (limit) {
    svg.append(element('line', { x1: left, x2: width - right, y1: y(limit), y2: y(limit), stroke: 'var(--bad)', 'stroke-dasharray': '5 4' }));
    svg.append(element('text', { x: width - right, y: y(limit) - 5, 'text-anchor': 'end', style: 'fill:var(--bad)' }, `tolerance ${limit.toExponential(0)}`));
  }
  // Lines often lie on one another: the lower ones are wider.
  series.forEach((line, i) => {
    const points = line.values.map((value, step) => `${x(step + 1).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
    svg.append(element('polyline', { points, fill: 'none', stroke: line.color, 'stroke-width': 1.5 + 1.6 * (series.length - 1 - i), 'stroke-linejoin': 'round' }));
  });
  return [svg, legend(series.map(line => [line.name, line.color]))];
}

// Horizontal bars of several pieces. rows: {name, pieces: [{name, value, color}], dots: [values], text}
function bar_chart(width, rows, unit, label, pieces_legend) {
  const narrow = width < 560, left = narrow ? 0 : Math.min(230, 14 + 7 * Math.max(...rows.map(row => row.name.length)));
  const bar = 20, gap = narrow ? 26 : 12, right = 20 + 7 * Math.max(...rows.map(row => row.text.length)), top = 4, bottom = 42;
  const height = top + rows.length * (bar + gap) + bottom;
  const most = largest(rows.flatMap(row => [sum(row.pieces.map(piece => piece.value)), ...(row.dots || [])])) || 1;
  const x = value => left + (width - left - right) * value / most;
  const svg = picture(width, height, label);
  for (const value of ticks(most, narrow ? 3 : 6)) {
    svg.append(element('line', { x1: x(value), x2: x(value), y1: top, y2: height - bottom + 4, class: 'grid' }));
    svg.append(element('text', { x: x(value), y: height - bottom + 20, 'text-anchor': value === 0 && narrow ? 'start' : 'middle', class: 'soft' }, count_or_fraction(value)));
  }
  svg.append(element('text', { x: (left + width - right) / 2, y: height - 4, 'text-anchor': 'middle', class: 'soft' }, unit));
  rows.forEach((row, i) => {
    const y = top + i * (bar + gap) + (narrow ? gap - 6 : gap / 2);
    svg.append(element('text', narrow ? { x: 0, y: y - 5 } : { x: left - 10, y: y + bar / 2 + 4, 'text-anchor': 'end' }, row.name));
    let at = 0;
    for (const piece of row.pieces) {
      if (!(piece.value > 0)) continue;
      const rectangle = element('rect', { x: x(at), y, width: Math.max(0.5, x(at + piece.value) - x(at)), height: bar, style: `fill:${piece.color}` });
      rectangle.append(element('title', {}, `${row.name}, ${piece.name}: ${count_or_fraction(piece.value)} ${unit}`));
      svg.append(rectangle);
      at += piece.value;
    }
    for (const dot of row.dots || []) svg.append(element('circle', { cx: x(dot), cy: y + bar / 2, r: 4, class: 'dot' }));
    svg.append(element('text', { x: Math.max(x(at), ...(row.dots || []).map(x)) + 8, y: y + bar / 2 + 4 }, row.text));
  });
  return pieces_legend ? [svg, legend(pieces_legend)] : [svg];
}
const count_or_fraction = value => value >= 100 || Number.isInteger(value) ? count(value) : value >= 1 ? value.toFixed(1) : value.toFixed(2);

// Steps one above the other, rows of spans, one scale for all.
function timeline_chart(width, groups, label) {
  const narrow = width < 560, left = narrow ? 0 : 172, right = 12, row_height = 26, row_gap = narrow ? 20 : 6, head = 26, bottom = 42;
  const rows = sum(groups.map(group => group.timeline.length));
  const height = groups.length * (head + 10) + rows * (row_height + row_gap) + bottom;
  const most = largest(groups.flatMap(group => group.timeline.flatMap(row => row.spans.map(span => span.end)))) / 1000 || 1;
  const x = milliseconds => left + (width - left - right) * milliseconds / most;
  const svg = picture(width, height, label);
  for (const value of ticks(most, narrow ? 4 : 8)) {
    svg.append(element('line', { x1: x(value), x2: x(value), y1: 0, y2: height - bottom + 4, class: 'grid' }));
    svg.append(element('text', { x: x(value), y: height - bottom + 20, 'text-anchor': value === 0 && narrow ? 'start' : 'middle', class: 'soft' }, count_or_fraction(value)));
  }
  svg.append(element('text', { x: (left + width - right) / 2, y: height - 4, 'text-anchor': 'middle', class: 'soft' }, 'ms from the beginning of the step'));
  let y = 0;
  const seen = new Set();
  for (const group of groups) {
    svg.append(element('text', { x: 0, y: y + 18, 'font-weight': 600 }, group.title));
    y += head;
    for (const row of group.timeline) {
      if (narrow) svg.append(element('text', { x: 0, y: y + 12, class: 'soft' }, row.name));
      else svg.append(element('text', { x: left - 10, y: y + row_height / 2 + 4, 'text-anchor': 'end', class: 'soft' }, row.name));
      const from = y + (narrow ? 16 : 0);
      for (const span of row.spans) {
        const inset = Math.min(span.depth, 4) * 3, begin = x(span.begin / 1000), length = x(span.end / 1000) - begin;
        seen.add(span.phase);
        const box = element('rect', { x: begin, y: from + inset, width: Math.max(0.6, length), height: row_height - 2 * inset, rx: 2, style: `fill:${phaseColor(span.phase)}` });
        box.append(element('title', {}, `${phaseName(span.phase)}: ${((span.end - span.begin) / 1000).toFixed(2)} ms, from ${(span.begin / 1000).toFixed(2)} ms`));
        svg.append(box);
        const inside = span.depth > 0 || row.spans.length < 12 ? fits(phaseName(span.phase), length) : '';
        if (inside && span.phase !== 'iteration') svg.append(element('text', { x: begin + 5, y: from + row_height / 2 + 4, class: 'inside' }, inside));
      }
      y += row_height + row_gap;
    }
    y += 10;
  }
  return [svg, legend([...PHASES, 'all-reduce'].filter(phase => seen.has(phase)).map(phase => [phaseName(phase), phaseColor(phase)]))];
}

// --- what is drawn -------------------------------------------------------------------------------------------------

// A variant that is missing (one_all_threads, where there is one thread) must not change the others' colours.
const color_of = { one: 0, one_all_threads: 1, dp: 2, ddp_after_backward: 3, ddp_per_gradient: 4, ddp_buckets: 5, ddp_overlap: 6 };
const compared = variants.filter(variant => variant.name !== 'one');
const lines = key => compared.map(variant => ({ name: variant.title, color: color(color_of[variant.name]), values: variant.parity[key] }));

function first_row(variant) {
  const row = variant.speed.phases.length > 0 ? variant.speed.phases[0].row : '';
  const times = {};
  for (const each of variant.speed.phases) if (each.row === row) times[each.phase] = (times[each.phase] || 0) + each.ms;
  times.idle = Math.max(0, variant.speed.step_ms - sum(Object.values(times)));
  return times;
}
const used_phases = PHASES.filter(phase => variants.some(variant => first_row(variant)[phase] > 0));
const byte_kind = row => row.phase === 'communication' ? 'all-reduce' : row.phase;
const byte_kinds = [...new Set(variants.flatMap(variant => variant.bytes.map(byte_kind)))];
const MEMORY = [['parameters', '--c5'], ['gradients', '--c2'], ['momentum', '--p-step'], ['buckets', '--p-communication'], ['rest', '--p-iteration']];
const memory_name = key => key === 'rest' ? 'activations and the rest' : key;
const memory_rows = variants.flatMap(variant => variant.memory.map(row => ({ variant, row })));
const shown_in_timeline = variants.filter(variant => variant.name === 'dp' || variant.name === 'ddp_overlap');

const charts = {
  'parity-loss': width => line_chart(width, lines('loss'), variants[0].parity.tolerance, 'Difference of the loss from one device, per step'),
  'parity-parameters': width => line_chart(width, lines('parameters'), 0, 'Largest difference of a parameter from one device, per step'),
  speed: width => bar_chart(width, variants.map(variant => ({
    name: variant.title,
    pieces: [{ name: 'median', value: variant.speed.samples_per_second, color: color(color_of[variant.name]) }],
    dots: variant.speed.run_step_ms.map(ms => report.global_batch / ms * 1000),
    text: count(variant.speed.samples_per_second),
  })), 'samples a second', 'Samples a second of each variant'),
  phases: width => bar_chart(width, variants.map(variant => ({
    name: variant.title,
    pieces: used_phases.map(phase => ({ name: phaseName(phase), value: first_row(variant)[phase] || 0, color: phaseColor(phase) })),
    text: variant.speed.step_ms.toFixed(1),
  })), 'ms a step', 'Time of each phase of a step', used_phases.map(phase => [phaseName(phase), phaseColor(phase)])),
  communication: width => bar_chart(width, variants.filter(variant => variant.kind !== 'one').map(variant => ({
    name: variant.title,
    pieces: [{ name: 'waited for', value: variant.speed.exposed_ms, color: 'var(--p-communication)' }, { name: 'hidden', value: variant.speed.hidden_ms, color: 'var(--p-forward)' }],
    text: `${variant.speed.exposed_ms.toFixed(1)} + ${variant.speed.hidden_ms.toFixed(1)}`,
  })), 'ms a step', 'Communication exposed and hidden', [['waited for', 'var(--p-communication)'], ['hidden behind backward', 'var(--p-forward)']]),
  timeline: width => timeline_chart(width, shown_in_timeline, 'One step of DP above one step of DDP'),
  bytes: width => bar_chart(width, variants.filter(variant => variant.bytes.length > 0).map(variant => ({
    name: variant.title,
    pieces: byte_kinds.map(kind => ({ name: kind, value: sum(variant.bytes.filter(row => byte_kind(row) === kind).map(row => row.counted)) / MIB, color: phaseColor(kind) })),
    text: (sum(variant.bytes.map(row => row.counted)) / MIB).toFixed(2),
  })), 'MiB a step, all devices together', 'Bytes a step by kind', byte_kinds.map(kind => [kind, phaseColor(kind)])),
  memory: width => bar_chart(width, memory_rows.map(({ variant, row }) => ({
    name: `${variant.title}, ${row.device}`.replace('buckets with overlap', 'overlap'),
    pieces: MEMORY.map(([key, fill]) => ({ name: memory_name(key), value: Math.max(0, row[key]) / MIB, color: `var(${fill})` })),
    text: (row.peak / MIB).toFixed(1),
  })), 'MiB', 'Peak memory of each device', MEMORY.map(([key, fill]) => [memory_name(key), `var(${fill})`])),
};

function draw() {
  for (const figure of document.querySelectorAll('figure[data-chart]')) {
    const style = getComputedStyle(figure);
    const width = Math.max(280, figure.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
    figure.querySelectorAll('svg, .legend').forEach(old => old.remove());
    figure.append(...charts[figure.dataset.chart](Math.round(width)));
  }
  root.setAttribute('data-charts', document.querySelectorAll('figure[data-chart] svg').length);
  root.setAttribute('data-overflow', root.scrollWidth - root.clientWidth);
  root.setAttribute('data-width', window.innerWidth);
}

// --- text and tables -----------------------------------------------------------------------------------------------

function write() {
  const named = name => variants.find(variant => variant.name === name);
  document.getElementById('about').textContent =
    `${report.model} on ${report.devices} ${report.device} devices, ${report.global_batch} samples a step, ${report.runs} runs of ${report.steps} steps. ${report.machine}, ${report.cores} threads.`;
  const tiles = document.getElementById('tiles');
  for (const name of ['one', 'dp', 'ddp_overlap']) {
    tiles.append(html('div', { class: 'tile' }, html('b', {}, count(named(name).speed.samples_per_second)), html('span', {}, `samples/s, ${named(name).title}`)));
  }
  tiles.append(html('div', { class: 'tile' }, html('b', {}, short(largest(compared.flatMap(variant => variant.parity.loss)))),
    html('span', {}, `largest loss difference in ${report.parity_steps} steps`)));
  const nav = document.querySelector('nav');
  for (const section of document.querySelectorAll('section:not([hidden])')) {
    nav.append(html('a', { href: `#${section.id}` }, section.querySelector('h2').textContent));
  }
  const one = named('one'), ideal = variants[variants.length - 1].speed.ideal_speedup;
  document.getElementById('speed-note').textContent = report.device === 'cpu'
    ? `Virtual devices share the machine's ${report.cores} threads; each has ${one.threads}, and so has the one device that the others are compared with. The best ${report.devices} of them can reach is ${ideal.toFixed(1)} times its speed.`
    : `The best ${report.devices} devices can reach is ${ideal.toFixed(1)} times the speed of one.`;
  const first = value => value.step === 0 ? 'none' : `step ${value.step}, ${value.what}`;
  show_table('parity', [column('variant'), numbers('loss'), numbers('gradient'), numbers('parameter'), column('first bit that differs'), column('first beyond tolerance')],
    variants.map(variant => [variant.title, short(largest(variant.parity.loss)), short(largest(variant.parity.gradients)), short(largest(variant.parity.parameters)),
      first(variant.parity.first_bits), html('span', { class: variant.parity.passed ? 'good' : 'bad' }, first(variant.parity.first_beyond))]));
  show_table('speed', [column('variant'), numbers('devices × threads'), numbers('ms a step'), numbers('lowest to highest'), numbers('samples/s'), numbers('speedup'), numbers('ideal'), numbers('efficiency'), numbers('exposed ms'), numbers('hidden ms')],
    variants.map(({ title, devices, threads, speed }) => [title, `${devices} × ${threads}`, speed.step_ms.toFixed(2), `${speed.lowest_step_ms.toFixed(2)} to ${speed.highest_step_ms.toFixed(2)}`,
      count(speed.samples_per_second), speed.speedup.toFixed(2), speed.ideal_speedup.toFixed(1), `${(100 * speed.efficiency).toFixed(0)} %`, speed.exposed_ms.toFixed(2), speed.hidden_ms.toFixed(2)]));
  show_table('phases', [column('variant'), ...used_phases.map(phase => numbers(phaseName(phase)))],
    variants.map(variant => [variant.title, ...used_phases.map(phase => phase in first_row(variant) ? first_row(variant)[phase].toFixed(2) : '–')]));
  show_table('timeline', [column('step of'), column('row'), column('span'), numbers('from ms'), numbers('to ms')],
    shown_in_timeline.flatMap(variant => variant.timeline.flatMap(row => row.spans.map(span =>
      [variant.title, row.name, phaseName(span.phase), (span.begin / 1000).toFixed(3), (span.end / 1000).toFixed(3)]))));
  show_table('bytes', [column('variant'), column('phase'), column('what'), column('from'), column('to'), numbers('counted'), numbers('formula'), column('')],
    variants.flatMap(variant => variant.bytes.map(row => [variant.title, byte_kind(row), row.kind, row.from, row.to, count(row.counted),
      html('span', { class: row.counted === row.formula ? 'good' : 'bad' }, count(row.formula)), row.formula_text])));
  show_table('memory', [column('variant'), column('device'), numbers('peak MiB'), ...MEMORY.map(([key]) => numbers(memory_name(key)))],
    memory_rows.map(({ variant, row }) => [variant.title, row.device, (row.peak / MIB).toFixed(2), ...MEMORY.map(([key]) => (row[key] / MIB).toFixed(2))]));
  const tests = list => {
    const cell = html('span');
    for (const name of list) cell.append(html('code', {}, name), html('br'));
    return cell;
  };
  document.getElementById('behaviour-table').append(table([column('difference'), column('one device'), column('DP'), column('DDP'), column('tests')],
    report.behaviour.map(row => [row.difference, row.one, row.dp, row.ddp, tests(row.tests)]), true));
  const clocks = report.clocks.map(clock => `rank ${clock.rank}: ${clock.offset_us.toFixed(1)} µs (round trip ${clock.round_trip_us.toFixed(1)} µs)`).join(', ');
  document.getElementById('foot').textContent = `Clocks against rank 0: ${clocks}. Backend of DDP: ${report.backend}. Seed ${report.seed}.`;
}

write();
draw();
let pending = 0;
window.addEventListener('resize', () => { cancelAnimationFrame(pending); pending = requestAnimationFrame(draw); });
window.addEventListener('beforeprint', () => document.querySelectorAll('details').forEach(each => { each.open = each.dataset.before = true; }));
window.addEventListener('afterprint', () => document.querySelectorAll('details[data-before]').forEach(each => { each.open = false; delete each.dataset.before; }));
root.setAttribute('data-requests', performance.getEntriesByType('resource').length);
root.setAttribute('data-ready', 'yes');
