// The REST API's reference, with a try of every operation: Swagger UI on the console's own document. Who is logged in
// is so here too; others give a key under "Authorize".

import SwaggerUI from 'swagger-ui-dist/swagger-ui-es-bundle.js';
import 'swagger-ui-dist/swagger-ui.css';
import { apiUrl } from './lib/url';

let csrfToken = '';

interface Asked {
  url: string;
  method?: string;
  headers: Record<string, string>;
}

SwaggerUI({
  url: apiUrl('openapi.json'),
  dom_id: '#api',
  deepLinking: true,
  docExpansion: 'none',
  displayOperationId: true,
  filter: true,
  validatorUrl: null,
  requestInterceptor: (asked: Asked): Asked => {
    if (csrfToken !== '' && (asked.method ?? 'GET').toUpperCase() !== 'GET') asked.headers['X-CSRF-Token'] = csrfToken;
    return asked;
  },
});

const session = await fetch(apiUrl('session'), { credentials: 'same-origin' });
if (session.ok) csrfToken = ((await session.json()) as { csrf_token: string }).csrf_token;
