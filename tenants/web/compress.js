// Compresses what the build made, once: FILE.br and FILE.gz beside each text of the folder that is given.

import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const TEXTS = ['.html', '.js', '.css', '.svg', '.json'];
const BYTES_MIN = 1024;

function compress(folder) {
  for (const name of readdirSync(folder)) {
    const file = join(folder, name);
    if (statSync(file).isDirectory()) compress(file);
    else if (TEXTS.includes(extname(name)) && statSync(file).size >= BYTES_MIN) {
      const text = readFileSync(file);
      const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: text.length };
      writeFileSync(`${file}.br`, brotliCompressSync(text, { params }));
      writeFileSync(`${file}.gz`, gzipSync(text, { level: 9 }));
    }
  }
}

compress(process.argv[2]);
