document.currentScript.previousElementSibling && (function (box) {
  const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  const columns = +box.dataset.columns, rows = +box.dataset.rows;
  const frames = JSON.parse(box.querySelector("script").textContent);
  const slider = box.querySelector("input"), moment = box.querySelector("output");
  const canvases = [...box.querySelectorAll("canvas")];
  canvases.forEach(c => { c.width = columns; c.height = rows; c.style.height = Math.max(120, Math.min(rows * 8, 480)) + "px"; });
  const channel = name => {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    box.append(probe);
    const colour = getComputedStyle(probe).color.match(/\d+/g).map(Number);
    probe.remove();
    return colour;
  };
  function draw() {
    const frame = frames[slider.value];
    moment.textContent = frame[0];
    ["--c0", "--c1"].forEach((name, i) => {
      const paper = channel("--paper"), ink = channel(name);
      const context = canvases[i].getContext("2d"), image = context.createImageData(columns, rows);
      for (let cell = 0; cell < frame[i + 1].length; cell++) {
        const level = digits.indexOf(frame[i + 1][cell]) / 63;
        for (let c = 0; c < 3; c++) image.data[4 * cell + c] = paper[c] + (ink[c] - paper[c]) * level;
        image.data[4 * cell + 3] = 255;
      }
      context.putImageData(image, 0, 0);
    });
  }
  slider.addEventListener("input", draw);
  draw();
})(document.currentScript.previousElementSibling);
