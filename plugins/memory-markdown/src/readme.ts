/** What stands at the top of a store. */
export const README_TEXT = `# Memories of agents

The plugin memory-markdown keeps here what agents remember from one session to the next. Each file is
one memory. You may read, edit, add and delete them at any time; the plugin looks again before each use.

| where | what |
|---|---|
| \`primary/\`, \`primary.subagents.NAME/\` | what that agent remembers |
| \`shared/\` | what all agents of the project remember, with \`isolation: project\` |
| \`trash/\` in there | what was forgotten; nobody looks at it, and you may empty it |
| \`.seen.json\` in there | up to which message something was kept of each session |

In a store of the plugin's own (\`config:/\`) these are in a folder for each project.

A file looks like this:

    ---
    id: mem-7k3f9x2a
    created: 2026-05-27T10:00:00Z
    updated: 2026-05-27T10:00:00Z
    tags: [tooling, bun]
    project: music
    agent: primary
    session: ses_01J...
    source: retain
    ---

    Uses bun, never npm.

Only the text is needed: a file without the lines at its top is a memory, too, and its name is its id.
\`pinned: true\` puts one first in what a model is given at the start of a session. Lines that the
plugin does not know are left as they are. A file that it cannot read, it leaves alone, says so in its
log (\`kaged plugin logs memory-markdown\`) and lists it in the answer of its tool \`list_tags\`.

Everything here is plain text, and what a model is given of it is sent to the provider of the model.
`;
