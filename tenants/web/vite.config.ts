import { paraglideVitePlugin } from '@inlang/paraglide-js';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// Node's types are not worth a dependency for one variable.
declare const process: { env: Record<string, string | undefined> };

// PORTICO_CONSOLE is the API that `npm run dev` talks to.
const api = process.env.PORTICO_CONSOLE ?? 'http://127.0.0.1:8080';

export default defineConfig({
  base: './',
  plugins: [
    svelte(),
    paraglideVitePlugin({
      project: './project.inlang',
      outdir: './src/paraglide',
      // English alone while pages are left that have no Chinese.
      strategy: ['baseLocale'],
    }),
  ],
  build: {
    outDir: '../static',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 2048, // the reference of the API, which few people open
    rollupOptions: { input: ['index.html', 'docs/index.html'] },
  },
  server: { host: '127.0.0.1', proxy: { '/v1': { target: api, changeOrigin: true } } },
});
