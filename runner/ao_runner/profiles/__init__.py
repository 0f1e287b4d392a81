"""Profiles: how the host of a runner wants an executor to be run."""

from ao_runner.profiles.profile import (
    COORDINATOR_TOKEN,
    RUNNERS_OWN,
    Limits,
    Profile,
    Variables,
    Warm,
    config_schema_problem,
    missing_variables,
    problems_with,
    profile_environment,
)
from ao_runner.profiles.search import (
    FoundProfile,
    InvalidProfile,
    ProfileFolderUnreadable,
    ProfileNotFound,
    ProfileStandsTwice,
    list_profiles,
    load_profile,
)

__all__ = [
    "COORDINATOR_TOKEN",
    "RUNNERS_OWN",
    "FoundProfile",
    "InvalidProfile",
    "Limits",
    "Profile",
    "ProfileFolderUnreadable",
    "ProfileNotFound",
    "ProfileStandsTwice",
    "Variables",
    "Warm",
    "config_schema_problem",
    "list_profiles",
    "load_profile",
    "missing_variables",
    "problems_with",
    "profile_environment",
]
