"""Operations on jobs: submit, read_status, follow, logs, stop, change, listing, why.

They combine the stages and contain no rules. The package is not called `jobs`, because importing a
subpackage would replace the function `submit_tf_job.jobs`.
"""
