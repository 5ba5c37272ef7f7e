"""The exit codes that the reference lists, written down apart from the program that is tested."""

SUCCESS = 0
CHECK_FAILED = 1  # The answer is no: a check failed, tables differ, nothing was identified.
USAGE_ERROR = 2  # The command line or a parameter is wrong.
FILE_ERROR = 3  # A file cannot be read or written, or is not what it claims to be.
DEFECT = 70  # A defect of pecli itself.
