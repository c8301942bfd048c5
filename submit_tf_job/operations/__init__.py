"""Operations on jobs: submit, read_status, follow, logs, stop, change, listing, why.

Each operation calls the stages (plan, yarn, storage, logs, diagnose) in turn; the rules are in
those packages. The package is not called `jobs`, because importing a subpackage would replace the
function `submit_tf_job.jobs`.
"""
