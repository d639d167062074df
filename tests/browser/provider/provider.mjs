// An OpenID provider on this machine: whoever signs in is who they say they are, and of the groups behind a `+`.
import Provider from 'oidc-provider';

const [port, secret, console_] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: 'portico',
      client_secret: secret,
      redirect_uris: [console_],
      post_logout_redirect_uris: [console_],
    },
  ],
  scopes: ['openid', 'profile', 'groups'],
  claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
  pkce: { required: () => true },
  cookies: { keys: ['of-this-test'] },
  async findAccount(_context, id) {
    const [name, ...groups] = id.split('+');
    return { accountId: id, claims: async () => ({ sub: id, preferred_username: name, groups }) };
  },
});
provider.listen(Number(port), '127.0.0.1', () => process.stdout.write('serves\n'));
