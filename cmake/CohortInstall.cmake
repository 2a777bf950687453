# find_package(cohort [COMPONENTS plugin runtime trainer])
