-- What sessions are called in lists: as they were named, or the first words that were said in them.

ALTER TABLE session ADD COLUMN title TEXT; -- NULL: nothing was said yet
UPDATE session SET title = (
    SELECT CASE WHEN json_valid(CAST(said.bytes AS TEXT))
        THEN trim(substr(replace(replace(json_extract(CAST(said.bytes AS TEXT), '$'), char(10), ' '), char(9), ' '), 1, 60))
        END
    FROM session_entry AS entry JOIN session_content AS said ON said.number = entry.content
    WHERE entry.session = session.number AND entry.kind = 'message' AND entry.role = 'user'
        AND substr(CAST(said.bytes AS TEXT), 1, 1) = '"'
    ORDER BY entry.seq LIMIT 1);
