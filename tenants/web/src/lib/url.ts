// Where the API is: below the console's root, wherever that is served.

export const root = new URL(document.baseURI.replace(/docs\/(index\.html)?([?#].*)?$/, ''));

/** What somebody who is invited opens. */
export const invitationLink = (secret: string): string => new URL(`#/invitation/${secret}`, root).href;

/** For what is not called but opened: downloads and streams. */
export const apiUrl = (path: string): string => new URL(`v1/${path}`, root).href;
