"""Spark's SQL settings, sorted by what they may do to a result.

*Pinned*: a definition can mean another thing under another value. The value at creation is stored with the stream table
and used ever after. *Fixed*: our reading of SQL, or the SQL we write, is right for one value only; that value holds
whatever anybody sets. *Free*: how a plan is found and run, how something is shown, or what no definition can reach.

Everything here is data and pure functions. A test goes over all settings of the installed Spark and fails for one that
no class names; docs/settings.md is made of this module.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta, timezone, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spark_trickle.errors import TrickleError

# Every pinned key with its value; None: not set.
Pins = Mapping[str, str | None]

TIME_ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"
PRECISION_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"
RETAIN_FRACTION = "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate"


class Class(StrEnum):
    PINNED = "pinned"
    FIXED = "fixed"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Setting:
    key: str  # or the beginning of keys, with * at its end
    value: str | None  # pinned: Spark's default; fixed: what it is; None: not set, or Spark's default
    why: str


def _settings(text: str) -> tuple[Setting, ...]:
    """Lines of `key = value | why`; `-` is None."""
    found = []
    for line in text.strip().splitlines():
        head, why = (part.strip() for part in line.split(" | "))
        key, _, value = (part.strip() for part in head.partition(" ="))
        found.append(Setting(_full(key), None if value == "-" else value, why))
    return tuple(found)


def _full(key: str) -> str:
    return key if key.startswith("spark.") else f"spark.sql.{key}"


# The default of the time zone is the machine's.
_PINNED = _settings("""
session.timeZone = - | what day and hour a timestamp is, and its text
ansi.enabled = true | whether a failing cast, an overflow, a division by zero is an error or NULL; mixed types
timestampType = TIMESTAMP_LTZ | what TIMESTAMP means in a cast or a literal
timeType.enabled = false | whether there is a type TIME
geospatial.enabled = false | whether there are the types GEOMETRY and GEOGRAPHY
mapKeyDedupPolicy = EXCEPTION | which value a map keeps for a key given twice
mapZipWithUsesJavaCollections = true | which keys map_zip_with takes for equal
decimalOperations.allowPrecisionLoss = true | types of decimal arithmetic
cteRecursionLevelLimit = 100 | where a recursion is an error
cteRecursionRowLimit = 1000000 | where a recursion is an error
binaryOutputStyle = - | text of a binary value in to_csv
chunkBase64String.enabled = true | line breaks in base64
columnNameOfCorruptRecord = _corrupt_record | which field of from_json, from_csv and from_xml gets what cannot be read
files.supportSecondOffsetFormat = true | zone offsets with seconds in JSON, CSV and XML
function.concatBinaryAsString = false | type of concat over binaries
function.eltOutputAsString = false | type of elt over binaries
icu.caseMappings.enabled = true | upper, lower and initcap outside ASCII
json.enableExactStringParsing = true | text of values that from_json reads as strings
json.enablePartialResults = true | what from_json keeps of a value it cannot read whole
json.useUnsafeRow = false | how from_json makes structs
jsonGenerator.ignoreNullFields = true | NULL fields in to_json
readSideCharPadding = true | CHAR columns of Delta Lake sources
variant.allowDuplicateKeys = false | parse_json of an object with a key twice
variant.allowReadingShredded = true | VARIANT columns of Delta Lake sources
avro.datetimeRebaseModeInRead = CORRECTED | old dates in from_avro
parquet.binaryAsString = false | columns of Delta Lake sources
parquet.datetimeRebaseModeInRead = CORRECTED | old dates of Delta Lake sources
parquet.inferTimestampNTZ.enabled = true | columns of Delta Lake sources
parquet.int96AsTimestamp = true | columns of Delta Lake sources
parquet.int96RebaseModeInRead = CORRECTED | old timestamps of Delta Lake sources
parquet.int96TimestampConversion = false | timestamps of Delta Lake sources
legacy.allowHashOnMapType = false | whether a map has a hash
legacy.allowNullComparisonResultInArraySort = false | array_sort with a comparison that gives NULL
legacy.allowZeroIndexInFormatString = false | format_string with %0$
legacy.avro.allowIncompatibleSchema = false | from_avro with another type than written
legacy.castComplexTypesToString.enabled = false | text of arrays, maps and structs
legacy.charVarcharAsString = false | CHAR and VARCHAR in a cast
legacy.codingErrorAction = false | encode and decode of what cannot be encoded
legacy.createEmptyCollectionUsingStringType = false | type of array() and map()
legacy.csv.enableDateTimeParsingFallback = - | dates in from_csv
legacy.decimal.retainFractionDigitsOnTruncate = false | types of decimal arithmetic
legacy.disableMapKeyNormalization = false | -0.0 and NaN as keys of a map
legacy.followThreeValuedLogicInArrayExists = true | exists over an array with NULLs
legacy.fromDayTimeString.enabled = false | intervals from text
legacy.histogramNumericPropagateInputType = true | type of histogram_numeric
legacy.interval.enabled = false | type of intervals
legacy.javaCharsets = false | character sets of encode and decode
legacy.json.allowEmptyString.enabled = false | empty text as a value in from_json
legacy.json.enableDateTimeParsingFallback = - | dates in from_json
legacy.literal.pickMinimumPrecision = true | types of decimal arithmetic with literals
legacy.lpadRpadAlwaysReturnString = false | type of lpad and rpad over binaries
legacy.negativeIndexInArrayInsert = false | array_insert from the end
legacy.noCharPaddingInPredicate = false | comparisons of CHAR columns of Delta Lake sources
legacy.nullInEmptyListBehavior = - | NULL IN an empty list
legacy.nullValueWrittenAsQuotedEmptyStringCsv = false | NULL in to_csv
legacy.parquet.nanosAsLong = false | columns of Delta Lake sources
legacy.parquet.returnNullStructIfAllFieldsMissing = false | columns of Delta Lake sources
legacy.percentileDiscCalculation = false | percentile_disc
legacy.sizeOfNull = true | size(NULL) without ANSI
legacy.statisticalAggregate = false | variance and the like of a single row
legacy.timeParserPolicy = CORRECTED | patterns of dates and timestamps
legacy.truncateForEmptyRegexSplit = false | split by an empty pattern
legacy.typeCoercion.datetimeToString.enabled = false | comparisons of dates with text
legacy.useLegacyXMLParser = false | from_xml
""")

_PARSER = "our parser reads SQL as Spark does by default"
_SUBQUERIES = "we rewrite subqueries by Spark's default rules"
_NAMES = "we resolve names by Spark's default rules"
_ROWS = "functions of the lake are called row by row with plain Python values"
_OURS = "the SQL that a refresh runs needs it"

_EXTERNAL = (
    "the rows of a small anchor would become external rows, which changes bytes of strings and the order of maps"
)
_FIXED = _settings(f"""
caseSensitive = false | {_NAMES}
groupByAliases = true | {_NAMES}
groupByOrdinal = true | {_NAMES}
orderByOrdinal = true | {_NAMES}
prioritizeOrdinalResolutionInSort.enabled = true | {_NAMES}
lateralColumnAlias.enableImplicitResolution = true | {_NAMES}
stableDerivedColumnAlias.enabled = false | names of columns without an alias
analyzer.* = - | {_NAMES}
runCollationTypeCastsBeforeAliasAssignment.enabled = true | {_NAMES}
enforceTypeCoercionBeforeUnionDeduplication.enabled = true | {_NAMES}
collation.* = - | which collations there are, and where
legacy.collationAwareHashFunctions = - | hash() and its kin over collated strings
legacy.ctePrecedencePolicy = CORRECTED | {_NAMES}
legacy.identifierClause = false | {_NAMES}
parser.* = - | {_PARSER}
ansi.doubleQuotedIdentifiers = false | {_PARSER}
ansi.enforceReservedKeywords = false | {_PARSER}
ansi.relationPrecedence = false | {_PARSER}
allowNamedFunctionArguments = true | {_PARSER}
operatorPipeSyntaxEnabled = true | {_PARSER}
tvf.allowMultipleTableArguments.enabled = false | {_PARSER}
variable.substitute = false | a definition is its text: `${{…}}` in it is not replaced
legacy.allowNegativeScaleOfDecimal = false | {_PARSER}
legacy.allowParameterlessCount = false | {_PARSER}
legacy.allowStarWithSingleTableIdentifierInCount = false | {_PARSER}
legacy.bangEqualsNot = false | {_PARSER}
legacy.consecutiveStringLiterals.enabled = false | {_PARSER}
legacy.duplicateBetweenInput = false | {_PARSER}
legacy.exponentLiteralAsDecimal.enabled = false | {_PARSER}
legacy.parseQueryWithoutEof = false | {_PARSER}
legacy.parser.havingWithoutGroupByAsWhere = false | {_PARSER}
legacy.setopsPrecedence.enabled = false | {_PARSER}
legacy.groupingIdWithAppendedUserGroupBy = false | we compute grouping_id by Spark's default rule
legacy.integerGroupingId = false | we compute grouping_id by Spark's default rule
legacy.inSubqueryNullability = false | {_SUBQUERIES}
legacy.scalarSubqueryAllowGroupByNonEqualityCorrelatedPredicate = false | {_SUBQUERIES}
legacy.scalarSubqueryCountBugBehavior = false | {_SUBQUERIES}
optimizer.* = - | some of them give wrong results when switched, such as those of subqueries with COUNT
crossJoin.enabled = true | {_OURS}
cteRelationDefMaxRows.enabled = true | a part that is read twice is computed once
legacy.inlineCTEInCommands = false | a part that is read twice is computed once
orderingAwareLimitOffset = true | LIMIT and OFFSET keep the order
legacy.earlyEvalCurrentTime = false | the clock stands still at the cut
legacy.useCurrentConfigsForView = false | a view means what the definition's settings say
assumeAnsiFalseIfNotPersisted.enabled = true | a view means what the definition's settings say
preserveCharVarcharTypeInfo = false | results are stored as STRING
storeAssignmentPolicy = ANSI | what is stored is what was computed
sources.partitionOverwriteMode = STATIC | {_OURS}
datetime.java8API.enabled = true | java.sql.Date cannot hold 1582-10-05 to 1582-10-14
cteRecursionAnchorRowsLimitToConvertToLocalRelation = 0 | {_EXTERNAL}
limit.initialNumPartitions = 10000 | small results are taken with a limit: all partitions at once, not in several jobs
files.ignoreCorruptFiles = false | a file that cannot be read is an error, not fewer rows
files.ignoreMissingFiles = false | a file that is gone is an error, not fewer rows
files.ignoreInvalidPartitionPaths = false | a folder that cannot be read is an error, not fewer rows
parquet.fieldId.read.enabled = false | columns of Delta Lake sources are found as Delta Lake says
parquet.fieldId.read.ignoreMissing = false | columns of Delta Lake sources are found as Delta Lake says
redaction.string.regex = - | plans are compared as text
execution.pythonUDF.arrow.enabled = false | {_ROWS}
execution.pythonUDF.pandas.intToDecimalCoercionEnabled = false | {_ROWS}
execution.pyspark.binaryAsBytes = true | {_ROWS}
legacy.execution.pythonUDF.pandas.conversion.enabled = false | {_ROWS}
iceberg.aggregate-push-down.enabled = false | Iceberg takes count(DISTINCT 'a') for count(*), and 0.0 for -0.0
iceberg.merge-schema = - | {_OURS}
iceberg.check-nullability = - | {_OURS}
iceberg.check-ordering = - | {_OURS}
spark.wap.branch = - | a refresh reads and writes the main branch
spark.wap.id = - | a refresh reads and writes the main branch
""")

_RUN = "how a plan is run: partitions, joins, memory, threads, code generation"
_PLAN = "how a plan is found among those that mean the same"
_SHOWN = "logs, messages, the user interface, and how results are shown"
_FILES = "files that no definition reads: sources are Iceberg tables, read by Iceberg, and Delta Lake tables"
_COMMANDS = "commands, not queries"
_PYTHON = "how data frames go between Python and Spark, not how functions of the lake are called"
_PLACES = "where tables and files are; the lake says so itself"
_STREAMING = "Spark's own streaming, Hive, Connect and servers, which definitions do not use"

# The first that fits; names before beginnings.
_FREE: tuple[tuple[str, str], ...] = (
    (
        _RUN,
        "adaptive.* autoBroadcastJoinThreshold broadcastExchange.* broadcastTimeout cache.* "
        "cartesianProductExec.* classic.* codegen.* columnVector.* "
        "defaultCacheStorageLevel exchange.* execution.* filesourceTableRelationCacheSize inMemoryColumnarStorage.* "
        "inMemoryTableScanStatistics.* join.* leafNodeDefaultParallelism limit.scaleUpFactor maxBroadcastTableSize "
        "maxConcurrentOutputFileWriters maxSinglePartitionBytes metadataCacheTTLSeconds objectHashAggregate.* "
        "requireAllClusterKeysForCoPartition requireAllClusterKeysForDistribution resultQueryStage.* "
        "scriptTransformation.* sessionWindow.* shuffle.* shuffledHashJoinFactor shuffleDependency.* "
        "shuffleExchange.* sort.* sortMergeJoinExec.* subexpressionElimination.* subquery.* unionOutputPartitioning "
        "windowExec.* bucketing.* sources.v2.bucketing.* sources.bucketing.*",
    ),
    (
        _PLAN,
        "alwaysInlineCommonExpr analyzer.maxIterations analyzer.canonicalization.* cbo.* constraintPropagation.* "
        "dataSource.* defaultSizeInBytes lazySetOperatorOutput.* lightweightPlanChangeValidation "
        "optimizeNullAwareAntiJoin optimizer.avoidCollapseUDFWithExpensiveExpr "
        "optimizer.canChangeCachedPlanOutputPartitioning optimizer.collapseProjectAlwaysInline "
        "optimizer.disableHints optimizer.dynamicPartitionPruning.* optimizer.excludedRules "
        "optimizer.expressionProjectionCandidateLimit optimizer.inSetConversionThreshold "
        "optimizer.inSetSwitchThreshold optimizer.maxIterations optimizer.runtime.* optimizer.runtimeFilter.* "
        "parser.manageParserCaches parser.parserDfa* planChangeValidation planner.* statistics.* "
        "useCommonExprIdForAlias variant.pushVariantIntoScan view.maxNestedViewDepth",
    ),
    (
        _SHOWN,
        "adaptive.logLevel cli.* dataFrameQueryContext.* dataframeCache.* debug debug.* error.* event.* "
        "expressionTreeChangeLog.* extendedExplainProviders legacy.emptyCurrentDBInCli "
        "legacy.raiseErrorWithoutErrorClass maxMetadataStringLength maxPlanStringLength nameResolutionLog.* "
        "planChangeLog.* queryExecutionListeners redaction.options.regex repl.* stackTracesInDataFrameContext ui.* "
        "spark.python.sql.*",
    ),
    (
        _FILES,
        "avro.* csv.* files.* json.filterPushdown.* jsonGenerator.writeNullIfWithDefaultValue "
        "legacy.bucketedTableScan.* legacy.db2.* legacy.extraOptionsBehavior.* legacy.mssqlserver.* legacy.mysql.* "
        "legacy.oracle.* legacy.pathOptionBehavior.* legacy.postgres.* legacy.readFileSourceTableCacheIgnoreOptions "
        "legacy.replaceDatabricksSparkAvro.* legacy.respectNullabilityInTextDatasetConversion orc.* parquet.* "
        "python.* runSQLOnFiles sources.* timeTravelTimestampKey timeTravelVersionKey variant.*",
    ),
    (
        _COMMANDS,
        "addPartitionInBatch.* charAsVarchar defaultColumn.* legacy.addSingleFileInAddFile "
        "legacy.allowAutoGeneratedAliasForView legacy.allowEmptySchemaWrite legacy.allowNonEmptyLocationInCTAS "
        "legacy.allowSessionVariableInPersistedView legacy.allowTempViewCreationWithMultipleNameparts "
        "legacy.blockCreateTempTableUsingProvider legacy.createHiveTableByDefault "
        "legacy.dataFrameWriterV2IgnorePathOption legacy.keepCommandOutputSchema "
        "legacy.keepPartitionSpecAsStringLiteral legacy.notReserveProperties legacy.parameterSubstitution.* "
        "legacy.parseNullPartitionSpecAsStringLiteral legacy.sessionInitWithConfigDefaults "
        "legacy.setCommandRejectsSparkCoreConfs legacy.skipTypeValidationOnAlterPartition "
        "legacy.storeAnalyzedPlanForView legacy.useV1Command legacy.v1IdentifierNoCatalog "
        "legacy.viewSchemaBindingMode legacy.viewSchemaCompensation mergeNestedTypeCoercion.* scripting.* "
        "truncateTable.*",
    ),
    (
        _PYTHON,
        "execution.arrow.* execution.pandas.* execution.pyspark.* legacy.allowUntypedScalaUDF "
        "legacy.dataset.nameNonStructGroupingKeyAsValue legacy.doLooseUpcast legacy.execution.* pivotMaxValues "
        "pyspark.* retainGroupColumns selfJoinAutoResolveAmbiguity session.localRelation* transposeMaxValues udt.*",
    ),
    (
        _PLACES,
        "artifact.* catalog.* catalogImplementation defaultCatalog defaultUrlStreamHandlerFactory.* extensions "
        "extensions.* globalTempDatabase maven.* warehouse.dir iceberg.*",
    ),
    (_STREAMING, "connect.* hive.* pipelines.* streaming.* thriftServer.* thriftserver.* spark.databricks.delta.*"),
)

FREE: tuple[Setting, ...] = tuple(Setting(_full(key), None, why) for why, keys in _FREE for key in keys.split())
PINNED: dict[str, Setting] = {s.key: s for s in _PINNED}
FIXED: dict[str, Setting] = {s.key: s for s in _FIXED}
# What the engine sets on its sessions; other fixed settings have Spark's default, and are unset.
ENGINE: dict[str, str] = {
    f"spark.sql.{key}": str(FIXED[f"spark.sql.{key}"].value)
    for key in (
        "cteRecursionAnchorRowsLimitToConvertToLocalRelation",
        "datetime.java8API.enabled",
        "iceberg.aggregate-push-down.enabled",
        "limit.initialNumPartitions",
        "variable.substitute",
    )
}
# What people call them.
ALIASES = {"time_zone": TIME_ZONE, "timezone": TIME_ZONE, "ansi": ANSI}


def classify(key: str) -> tuple[Class, Setting] | None:
    """What a setting is and why; None: nobody has looked at it yet. A name goes before the longest beginning."""
    if key in PINNED:
        return Class.PINNED, PINNED[key]
    best: tuple[Class, Setting] | None = None
    for kind, one in (*((Class.FIXED, s) for s in _FIXED), *((Class.FREE, s) for s in FREE)):
        if one.key == key:
            return kind, one
        if one.key.endswith("*") and key.startswith(one.key[:-1]) and (best is None or len(one.key) > len(best[1].key)):
            best = kind, one
    return best


def is_fixed(key: str) -> bool:
    found = classify(key)
    return found is not None and found[0] is Class.FIXED


# -- values ------------------------------------------------------------------------------------------------------------


def normal(key: str, value: str) -> str:
    """One spelling per value: Spark takes TRUE for true, and legacy for LEGACY."""
    default = PINNED[key].value or ""
    text = value.strip()
    if default in ("true", "false") or text.lower() in ("true", "false"):
        return text.lower()
    return text.upper() if re.fullmatch(r"[A-Z_]+", default) else text


def given(settings: Mapping[str, object]) -> dict[str, str]:
    """What a user asks to pin, under Spark's names; a value that Spark refuses is found when it is set."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        key = ALIASES.get(name.lower(), name)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if _pinnable(key, text):
            if key in found:
                raise _invalid(key, "it is given twice")
            found[key] = normal(key, text)
    if TIME_ZONE in found:
        zone(found[TIME_ZONE])
    return found


def _pinnable(key: str, value: str) -> bool:
    """False: it is fixed, at that very value."""
    what = classify(key)
    if what is None:
        close = difflib.get_close_matches(key, [*PINNED, *ALIASES], n=3, cutoff=0.5)
        close = close or [k for k in PINNED if k.endswith(f".{key}")]
        hint = f"Did you mean {' or '.join(close)}?" if close else "docs/settings.md lists what can be pinned."
        raise TrickleError("INVALID_SETTING", f"{key} is not a setting that a stream table can have.", hint=hint)
    kind, one = what
    if kind is Class.FREE:
        raise _invalid(
            key,
            f"it cannot change a result ({one.why})",
            "Set it for a connection: spark_conf. A stream table pins only what bears on its rows.",
        )
    if kind is Class.FIXED:
        fixed = "Spark's default" if one.value is None else one.value
        if value.strip().lower() != str(one.value).lower():
            raise _invalid(key, f"it is always {fixed} in a definition: {one.why}", "Leave it out.")
    return kind is Class.PINNED


def _invalid(key: str, why: str, hint: str | None = None) -> TrickleError:
    return TrickleError("INVALID_SETTING", f"Setting {key}: {why}.", hint=hint)


_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?")


def zone(text: str) -> tzinfo:
    """A time zone as Python knows it: a region or an offset."""
    offset = _OFFSET.fullmatch(text.strip())
    if offset is not None:
        ahead = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
        return timezone(-ahead if offset["sign"] == "-" else ahead)
    try:
        return ZoneInfo("UTC" if text.strip().upper() == "Z" else text.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "Write it as UTC, Europe/Berlin or +02:00."
        raise _invalid(TIME_ZONE, f"there is no time zone {text!r}", hint) from None


def plain_arithmetic(pins: Pins) -> bool:
    """Whether sums of decimals have the types that Spark gives by default, and an overflow is an error, not NULL."""
    return (pins.get(ANSI), pins.get(PRECISION_LOSS), pins.get(RETAIN_FRACTION)) == ("true", "true", "false")


def changed(old: Pins, new: Pins) -> tuple[str, ...]:
    """The differences in words."""
    return tuple(
        f"{key} is {shown(new.get(key))}, was {shown(old.get(key))}" for key in PINNED if old.get(key) != new.get(key)
    )


def differences(name: str, session: Mapping[str, str | None], pins: Pins) -> tuple[str, ...]:
    """What a definition means otherwise than a query in that session; `session` has all pinned and some fixed keys."""
    found = []
    for key, value in session.items():
        here = pins[key] if key in pins else FIXED[key].value if key in FIXED else None
        if value != here and not (value and here and value.lower() == here.lower()):
            there = "Spark's default" if key not in pins and here is None else shown(here)
            found.append(f"{key} is {shown(value)} in your session and {there} in {name}")
    return tuple(found)


def shown(value: str | None) -> str:
    return "not set" if value is None else value


def unusual_first(pins: Pins) -> tuple[tuple[str, str | None], ...]:
    """All of them, those that differ from Spark's defaults first."""
    return tuple(sorted(pins.items(), key=lambda pin: (not unusual(*pin), pin[0])))


def unusual(key: str, value: str | None) -> bool:
    return key == TIME_ZONE or key not in PINNED or PINNED[key].value != value
