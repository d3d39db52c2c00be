"""Makes again all that is made in the documents, of the code and of measurements that are kept: `python -m echelon.documents`."""

from __future__ import annotations

from echelon.documents import (
    columns,
    experiment_figures,
    few_queues_page,
    folding_pages,
    format_pages,
    interfaces,
    job_schedulers_page,
    paradigms_page,
    placement_pages,
    policy_pictures,
    ranking_page,
    scale_page,
    scheduler_pages,
    topology_pages,
    workload_pictures,
)

if __name__ == "__main__":
    for maker in (
        policy_pictures,
        scheduler_pages,
        topology_pages,
        placement_pages,
        workload_pictures,
        format_pages,
        folding_pages,
        few_queues_page,
        columns,
        experiment_figures,
        interfaces,
        paradigms_page,
        job_schedulers_page,
        ranking_page,
        scale_page,
    ):
        maker.main()
