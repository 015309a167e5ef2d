# table NAME 'COMMAND': the command's output at 80 and 120 columns and whole, against tests/golden/tables/NAME.COLUMNS.txt.
# UPDATE_GOLDEN=1 writes these files anew. Threads of a search decide how many candidates it prices: that line is left out.
table() {
  for columns in 80 120 wide; do
    ( [ $columns = wide ] || { unset SCALAI_WIDE; export COLUMNS=$columns; }; eval "$2" ) > whole || echo "$1: exit code $?"
    grep -v ' priced, ' whole > said
    golden=$SCALAI_SOURCE_DIR/tests/golden/tables/$1.$columns.txt
    [ -z "$UPDATE_GOLDEN" ] || cp said "$golden"
    diff -u "$golden" said
    [ $columns = wide ] || grep -E '^[- ]+$' said | awk -v most=$columns 'length > most {print "a table of", length, "columns"}'
  done
}
