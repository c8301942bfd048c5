import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

const [url, token, spec] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });
const body: components["schemas"]["JobSpec"] = JSON.parse(spec);
const made = await client.POST("/v1/jobs", { body, params: { header: { "Idempotency-Key": body.name } } });
if (!made.data) throw new Error(JSON.stringify(made.error));
const job = await client.GET("/v1/jobs/{name}", { params: { path: { name: made.data.name } } });
const list = await client.GET("/v1/jobs", { params: { query: { name: made.data.name, state: ["PENDING", "RUNNING"] } } });
console.log(JSON.stringify({ status: made.response.status, job: job.data?.name, listed: list.data?.jobs.length }));
