// Starts a run, follows it to its end, and prints its result, with the types of the server's OpenAPI document.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const body = { type: "start_session", agent_name: "echo", parameters: { message: "Hi" } } as const;
const created = await client.POST("/runs", { body });
if (created.error) throw new Error(JSON.stringify(created.error));
const path = { run_id: created.data.run_id };

let run: components["schemas"]["RunDetails"] | undefined;
while (!run?.completed_at) {
    run = (await client.GET("/runs/{run_id}", { params: { path, query: { wait: 30 } } })).data;
}
// @ts-expect-error a run has no such field
run.ended_at;

const result: components["schemas"]["RunResult"] | undefined =
    (await client.GET("/runs/{run_id}/result", { params: { path } })).data;
const missing = await client.GET("/runs/{run_id}", { params: { path: { run_id: "run_0" } } });
console.log(JSON.stringify({
    status: run.status,
    data: result?.result_data,
    valid: result?.schema_validation?.valid,
    refused: missing.error?.detail,
}));
