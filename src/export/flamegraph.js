"use strict";
/*
 * Makes the picture interactive. Viewers without scripts show the drawing in the file. This script
 * draws the data again, as wide as the window and from the frame that the reader has zoomed into.
 */
(function () {
	const SVG = "http://www.w3.org/2000/svg", XHTML = "http://www.w3.org/1999/xhtml";
	const ROW = 18, TOP = 70, BOTTOM = 58, SIDE = 10, CHAR = 7.25, NARROWEST = 0.1;
	const svg = document.documentElement;
	const element = id => document.getElementById(id);
	const data = JSON.parse(element("data").textContent);
	const frames = element("frames"), tip = element("tip"), details = element("details");

	/* ---- the tree: arrays indexed by node, in the order of printing ---- */

	const n = data.nodes.length / 3;
	const depth = new Uint32Array(n), label = new Uint32Array(n), parent = new Int32Array(n);
	const total = new Float64Array(n), start = new Float64Array(n);
	const after = new Uint32Array(n); /* the next node that is not below this one */
	let deepest = 0;

	function loadNodes() {
		const path = [], used = new Float64Array(n);
		for (let i = 0; i < n; i++) {
			depth[i] = data.nodes[3 * i];
			label[i] = data.nodes[3 * i + 1];
			total[i] = data.nodes[3 * i + 2];
			deepest = Math.max(deepest, depth[i]);
			while (path.length > depth[i])
				after[path.pop()] = i;
			const up = parent[i] = path.length ? path[path.length - 1] : -1;
			if (up >= 0) {
				start[i] = start[up] + used[up];
				used[up] += total[i];
			}
			path.push(i);
		}
		while (path.length)
			after[path.pop()] = n;
	}

	const name = i => data.labels[label[i]][0];
	const where = i => data.labels[label[i]][1];
	const SHADES = { "-1": "less", "0": "same", "1": "more" };

	/* A comparison colours frames by their change, else each label has its colour. */
	function colour(i) {
		if (!data.changes)
			return data.labels[label[i]][2];
		const shade = data.changes[3 * i];
		return SHADES[Math.sign(shade)] + Math.abs(shade);
	}

	function getChildren(i) {
		const found = [];
		for (let child = i + 1; child < after[i]; child = after[child])
			found.push(child);
		return found;
	}

	/* ---- drawing ---- */

	let width = 1200, zoomed = 0, focus = -1, matching = null;
	const drawn = new Map(); /* from a node to its element */

	function makeElement(tag, attributes, text) {
		const made = document.createElementNS(SVG, tag);
		for (const key in attributes)
			made.setAttribute(key, attributes[key]);
		if (text !== undefined)
			made.textContent = text;
		return made;
	}

	function isAbove(i, other) {
		return i < other && other < after[i];
	}

	/* Returns the left edge and the width of a frame in pixels. */
	function getExtent(i) {
		const inside = width - 2 * SIDE;
		if (isAbove(i, zoomed))
			return [SIDE, inside];
		const scale = inside / total[zoomed];
		return [SIDE + (start[i] - start[zoomed]) * scale, total[i] * scale];
	}

	function getRowY(i) {
		return TOP + ROW * (data.leafFirst ? depth[i] : deepest - depth[i]);
	}

	function clipText(text, pixels) {
		const room = Math.floor((pixels - 6) / CHAR);
		const chars = Array.from(text);
		if (chars.length <= room)
			return text;
		return room < 3 ? "" : chars.slice(0, room - 1).join("") + "\u2026";
	}

	function drawFrame(i, x, w) {
		const group = makeElement("g", { "data-i": i });
		const y = getRowY(i), text = clipText(name(i), w);
		group.append(makeElement("rect", { x: x.toFixed(2), y: y, width: w.toFixed(2),
			height: ROW - 1, rx: 2, class: colour(i) }));
		if (text)
			group.append(makeElement("text", { x: (x + 4).toFixed(2), y: y + 13 }, text));
		group.classList.toggle("parent", isAbove(i, zoomed));
		group.classList.toggle("match", matching !== null && matching[i] === 1);
		group.classList.toggle("focus", i === focus);
		drawn.set(i, group);
		return group;
	}

	function drawFrames() {
		const made = document.createDocumentFragment();
		drawn.clear();
		for (let i = 0; i < n;) {
			const inView = i === zoomed || isAbove(i, zoomed) || isAbove(zoomed, i);
			const [x, w] = inView ? getExtent(i) : [0, 0];
			if (w < NARROWEST) {
				i = after[i];
				continue;
			}
			made.append(drawFrame(i, x, w));
			i++;
		}
		frames.replaceChildren(made);
		element("reset").style.display = zoomed === 0 ? "none" : "";
	}

	function fitToWindow() {
		const height = TOP + ROW * (deepest + 1) + BOTTOM;
		width = Math.max(400, svg.getBoundingClientRect().width);
		svg.setAttribute("viewBox", "0 0 " + width + " " + height);
		element("background").setAttribute("width", width);
		element("buttons").setAttribute("transform", "translate(" + (width - SIDE) + ",0)");
		drawFrames();
	}

	/* ---- details of a frame ---- */

	function formatPercent(part, whole) {
		return (100 * part / whole).toFixed(2) + " %";
	}

	function formatPoints(hundredths) {
		return (hundredths > 0 ? "+" : "") + (hundredths / 100).toFixed(2) + " points";
	}

	function describeFrame(i) {
		const lines = [name(i)];
		if (where(i))
			lines.push(where(i));
		lines.push(total[i] + (total[i] == 1 ? " sample, " : " samples, ") + formatPercent(total[i], total[0]) + " of all");
		if (parent[i] > 0)
			lines.push(formatPercent(total[i], total[parent[i]]) + " of " + name(parent[i]));
		if (data.changes)
			lines.push("change " + formatPoints(data.changes[3 * i + 1]) + ", of its own " +
				formatPoints(data.changes[3 * i + 2]));
		return lines;
	}

	function showTip(i, x, y) {
		const lines = describeFrame(i).map(line => clipText(line, width - 2 * SIDE));
		const w = Math.max(...lines.map(line => Array.from(line).length)) * CHAR + 16;
		const h = lines.length * 16 + 10;
		const below = y + 20 + h < svg.viewBox.baseVal.height;
		tip.replaceChildren(makeElement("rect", { width: w, height: h, rx: 4 }),
			...lines.map((line, row) => makeElement("text", { x: 8, y: 18 + 16 * row }, line)));
		tip.setAttribute("transform", "translate(" +
			Math.max(2, Math.min(x + 12, width - w - 2)) + "," +
			Math.max(2, below ? y + 20 : y - h - 8) + ")");
	}

	function showDetails(i) {
		details.textContent = i < 0 ? "" : clipText(describeFrame(i).join("  \u00b7  "),
			width - 2 * SIDE);
	}

	/* ---- searching ---- */

	/* Marks all frames that match. False if the text is not a regular expression. */
	function searchFrames(text) {
		matching = null;
		element("found").textContent = "";
		let valid = true;
		try {
			if (text)
				markMatches(new RegExp(text, "i"));
		} catch (error) {
			element("found").textContent = "not a regular expression";
			valid = false;
		}
		drawFrames();
		return valid;
	}

	/* Counts a frame below another match only once. */
	function markMatches(pattern) {
		const hits = data.labels.map(entry => pattern.test(entry[0]) || pattern.test(entry[1]));
		let sum = 0, counted = 0;
		matching = new Uint8Array(n);
		for (let i = 0; i < n; i++) {
			if (!hits[label[i]])
				continue;
			matching[i] = 1;
			if (i >= counted) {
				sum += total[i];
				counted = after[i];
			}
		}
		element("found").textContent = "matched: " + formatPercent(sum, total[0]) + ", " + sum +
			" samples";
	}

	function openSearch() {
		const box = element("box");
		box.style.display = "";
		let entry = element("entry");
		if (!entry) {
			entry = document.createElementNS(XHTML, "input");
			entry.id = "entry";
			entry.placeholder = "regular expression";
			entry.addEventListener("input", () =>
				entry.classList.toggle("bad", !searchFrames(entry.value)));
			box.append(entry);
		}
		entry.focus();
		entry.select();
	}

	function closeSearch() {
		const entry = element("entry");
		if (entry) {
			entry.value = "";
			entry.blur();
		}
		element("box").style.display = "none";
		searchFrames("");
	}

	/* ---- zoom, focus, keys ---- */

	function zoomInto(i) {
		zoomed = i;
		drawFrames();
	}

	function setFocus(i) {
		if (i < 0 || i >= n)
			return;
		const old = drawn.get(focus);
		if (old)
			old.classList.remove("focus");
		focus = i;
		showDetails(i);
		const now = drawn.get(i);
		if (!now)
			return;
		now.classList.add("focus");
		frames.append(now); /* draws it over its neighbours' borders */
		now.scrollIntoView({ block: "nearest" });
	}

	function moveFocus(inwards, sideways) {
		if (focus < 0)
			return setFocus(zoomed);
		if (inwards < 0)
			return setFocus(parent[focus]);
		if (inwards > 0)
			return setFocus(focus + 1 < after[focus] ? focus + 1 : -1);
		if (parent[focus] < 0)
			return;
		const row = getChildren(parent[focus]);
		setFocus(row[row.indexOf(focus) + sideways] ?? -1);
	}

	/* Leaves the search, or else the zoom, or else the focus. */
	function stepBack() {
		if (element("entry") && element("box").style.display !== "none")
			closeSearch();
		else if (zoomed !== 0)
			zoomInto(0);
		else {
			focus = -1;
			showDetails(-1);
			drawFrames();
		}
	}

	function onKey(event) {
		const typing = event.target === element("entry");
		const out = data.leafFirst ? "ArrowUp" : "ArrowDown";
		const inwards = data.leafFirst ? "ArrowDown" : "ArrowUp";
		if (event.key === "f" && (event.ctrlKey || event.metaKey) || event.key === "/" && !typing)
			openSearch();
		else if (event.key === "Escape")
			stepBack();
		else if (event.key === "Enter" && typing)
			event.target.blur();
		else if (typing || event.ctrlKey || event.metaKey || event.altKey)
			return;
		else if (event.key === "Enter" && focus >= 0)
			zoomInto(focus);
		else if (event.key === out || event.key === inwards)
			moveFocus(event.key === out ? -1 : 1, 0);
		else if (event.key === "ArrowLeft" || event.key === "ArrowRight")
			moveFocus(0, event.key === "ArrowLeft" ? -1 : 1);
		else if (event.key === "Home")
			zoomInto(0);
		else
			return;
		event.preventDefault();
	}

	function nodeAt(event) {
		const group = event.target.closest("[data-i]");
		return group ? Number(group.getAttribute("data-i")) : -1;
	}

	loadNodes();
	frames.addEventListener("click", event => {
		const i = nodeAt(event);
		if (i < 0)
			return;
		focus = i;
		zoomInto(i);
		showDetails(i);
	});
	frames.addEventListener("mousemove", event => {
		const i = nodeAt(event), box = svg.getBoundingClientRect();
		if (i < 0)
			return;
		showTip(i, event.clientX - box.left, event.clientY - box.top);
		showDetails(i);
	});
	frames.addEventListener("mouseleave", () => {
		tip.replaceChildren();
		showDetails(focus);
	});
	element("search").addEventListener("click", openSearch);
	element("reset").addEventListener("click", () => zoomInto(0));
	window.addEventListener("keydown", onKey);
	window.addEventListener("resize", fitToWindow);
	element("buttons").style.display = "";
	svg.setAttribute("width", "100%");
	fitToWindow();
})();
