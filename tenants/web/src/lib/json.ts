// JSON with line breaks, by its characters: numbers and repeated names stay as they were written.

const STEP = '  ';

export function indentJson(text: string): string {
  let out = '';
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at]!;
    if (inString) {
      out += letter;
      if (letter === '\\') out += text[++at] ?? '';
      else if (letter === '"') inString = false;
    } else if (letter === '"') {
      out += letter;
      inString = true;
    } else if (letter === '{' || letter === '[') {
      const rest = /^\s*[}\]]/.exec(text.slice(at + 1, at + 100));
      if (rest) {
        out += letter + rest[0].trim();
        at += rest[0].length;
      } else {
        depth += 1;
        out += `${letter}\n${STEP.repeat(Math.min(depth, 40))}`;
      }
    } else if (letter === '}' || letter === ']') {
      depth -= 1;
      out += `\n${STEP.repeat(Math.min(Math.max(depth, 0), 40))}${letter}`;
    } else if (letter === ',') {
      out += `,\n${STEP.repeat(Math.min(depth, 40))}`;
    } else if (letter === ':') {
      out += ': ';
    } else if (!/\s/.test(letter)) {
      out += letter;
    }
  }
  return out;
}
