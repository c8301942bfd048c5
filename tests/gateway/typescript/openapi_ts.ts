import { client } from "./client/client.gen";
import { getJob, listJobs, submitJob, type JobSpec } from "./client";

const [url, token, spec] = process.argv.slice(2);
client.setConfig({ baseUrl: url, auth: token });
const body: JobSpec = JSON.parse(spec);
const made = await submitJob({ body, headers: { "Idempotency-Key": body.name } });
if (!made.data) throw new Error(JSON.stringify(made.error));
const job = await getJob({ path: { name: made.data.name } });
const list = await listJobs({ query: { name: made.data.name, state: ["PENDING", "RUNNING"] } });
console.log(JSON.stringify({ status: made.response?.status, job: job.data?.name, listed: list.data?.jobs.length }));
