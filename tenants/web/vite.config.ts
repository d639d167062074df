/// <reference types="vitest/config" />
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
      strategy: ['localStorage', 'preferredLanguage', 'baseLocale'],
    }),
  ],
  build: {
    outDir: '../static',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 2048, // the reference of the API, which few people open
    rollupOptions: {
      input: ['index.html', 'docs/index.html'],
      output: {
        // A page is a file with its own texts; what several need is one file, not one for each message.
        codeSplitting: {
          groups: [
            { name: 'url', test: /lib\/url/, priority: 2 },
            {
              name: 'shared',
              test: /^(?!\0|.*(uplot|ui\/Chart|ui\/SeriesCard|lib\/url)).*$/,
              minShareCount: 2,
              priority: 1,
            },
            { name: 'charts', test: /uplot|ui\/Chart|ui\/SeriesCard/ },
          ],
        },
      },
    },
  },
  test: { css: { include: [/tokens\.css/] } }, // a test reads it
  server: { host: '127.0.0.1', proxy: { '/v1': { target: api, changeOrigin: true } } },
});
